package native

// Probes is how many slots searches for all pages look at beyond the first of each.
func (p *ByID) Probes() (sum int) {
	for at, slot := range p.slots {
		if slot.id != 0 {
			sum += (at - p.begin(slot.id)) & (len(p.slots) - 1)
		}
	}
	return sum
}
