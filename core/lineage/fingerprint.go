package lineage

import "math/bits"

// Fingerprint is what two equal states have in common: a sum over their pages and dependencies, in any order. It is not made
// against forgery.
type Fingerprint uint64

// Page adds a page. Each change of a page advances its version.
func (f *Fingerprint) Page(id, version, size uint64) {
	f.add(mix(id) ^ bits.RotateLeft64(mix(version), 21) ^ bits.RotateLeft64(mix(size), 42))
}

// Edge adds a dependency between pages.
func (f *Fingerprint) Edge(parent, child uint64) { f.add(^mix(mix(parent) + child)) }

func (f *Fingerprint) add(value uint64) { *f += Fingerprint(mix(value)) }

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
