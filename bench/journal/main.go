// Command journal measures the journal alone, from the ring to the disk and back, against writing and reading as many bytes:
//
//	go run ./bench/journal FOLDER
package main

/*
#cgo CFLAGS: -std=gnu11 -O2 -I${SRCDIR}/../../include -I${SRCDIR}/../../native
#include "journal.h"

// What the path of a delta does for the journal, one group each: count runs of length bytes.
static mmsb_status_t put_runs(uint32_t context, uint64_t count, const uint8_t *payload, uint64_t length) {
    for (uint64_t i = 0; i < count; i++) {
        mmsb_ring_t *ring = mmsb_ring_for(context);
        mmsb_group_t group;
        mmsb_status_t status = mmsb_ring_begin(ring, &group, mmsb_journal_run_space(length), 1);
        if (status != MMSB_OK)
            return status;
        mmsb_ring_put_run(&group, 1 + (i & 1023), i >> 10, i >> 10, 0, payload, length);
        if ((status = mmsb_ring_end(&group)) != MMSB_OK)
            return status;
    }
    return MMSB_OK;
}
// The same in groups of batch.
static mmsb_status_t put_batches(uint32_t context, uint64_t count, const uint8_t *payload, uint64_t length, uint64_t batch) {
    for (uint64_t i = 0; i < count; i += batch) {
        mmsb_ring_t *ring = mmsb_ring_for(context);
        mmsb_group_t group;
        mmsb_status_t status = mmsb_ring_begin(ring, &group, batch * mmsb_journal_run_space(length), batch);
        if (status != MMSB_OK)
            return status;
        for (uint64_t j = 0; j < batch; j++)
            mmsb_ring_put_run(&group, 1 + (j & 1023), i, i, 0, payload, length);
        if ((status = mmsb_ring_end(&group)) != MMSB_OK)
            return status;
    }
    return MMSB_OK;
}
*/
import "C"

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"libmmsb/core/file"
	"libmmsb/core/journal"
	"libmmsb/native"
)

const contextIndex = 3

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// journalled runs put with a journal in the folder and returns the seconds until the calls were done, and until all was durable.
func journalled(folder string, durability journal.Durability, put func() C.mmsb_status_t) (calls, all float64) {
	writer, err := journal.NewWriter(file.OS{}, folder, journal.Options{Durability: durability})
	must(err)
	ring, code := native.OpenRing(contextIndex, writer.Next(), native.RingBytes, journal.DefaultInterval,
		durability == journal.EachCall)
	if code != 0 {
		panic(code)
	}
	done := make(chan error)
	go func() { done <- writer.Serve(ring) }()
	start := time.Now()
	if code := put(); code != 0 {
		_, _, _, text := native.LastError()
		panic(text)
	}
	calls = time.Since(start).Seconds()
	ring.Stop()
	must(<-done)
	ring.Close()
	return calls, time.Since(start).Seconds()
}

// replayed reads the journal and returns the seconds and the bytes of its records' payloads.
func replayed(folder string) (seconds float64, records, bytes uint64) {
	start := time.Now()
	j, err := journal.Open(file.OS{}, folder)
	must(err)
	for record, err := range j.Records(1, math.MaxUint64) {
		must(err)
		records++
		bytes += uint64(len(record.Bytes))
	}
	return time.Since(start).Seconds(), records, bytes
}

func raw(path string, bytes int64) (write, read float64) {
	block, err := unix.Mmap(-1, 0, 4<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	must(err)
	for i := range block {
		block[i] = byte(i * 7)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC|unix.O_DIRECT, 0o600)
	must(err)
	start := time.Now()
	for at := int64(0); at < bytes; at += int64(len(block)) {
		_, err = f.WriteAt(block, at)
		must(err)
	}
	must(f.Sync())
	write = time.Since(start).Seconds()
	start = time.Now()
	for at := int64(0); at < bytes; at += int64(len(block)) {
		_, err = f.ReadAt(block, at)
		must(err)
	}
	read = time.Since(start).Seconds()
	must(f.Close())
	must(os.Remove(path))
	return write, read
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: journal FOLDER")
		os.Exit(2)
	}
	if errno := native.Start(); errno != 0 {
		must(errno)
	}
	payload := make([]byte, 1<<20)
	for i := range payload {
		payload[i] = byte(i * 13)
	}
	address := (*C.uint8_t)(unsafe.Pointer(&payload[0]))
	folder := filepath.Join(os.Args[1], "journal.bench")
	small := func(name string, count uint64, put func() C.mmsb_status_t) {
		must(os.RemoveAll(folder))
		calls, all := journalled(folder, journal.Interval, put)
		seconds, records, _ := replayed(folder)
		if records != count {
			panic(records)
		}
		fmt.Printf("%-36s %6.2f M/s, until durable %6.2f M/s, read back %6.2f M/s\n", name, float64(count)/calls/1e6,
			float64(count)/all/1e6, float64(count)/seconds/1e6)
	}
	const count = 4 << 20
	small("64-byte deltas", count, func() C.mmsb_status_t { return C.put_runs(contextIndex, count, address, 64) })
	small("64-byte deltas in batches of 1024", count,
		func() C.mmsb_status_t { return C.put_batches(contextIndex, count, address, 64, 1024) })

	const large = 768
	must(os.RemoveAll(folder))
	_, all := journalled(folder, journal.Interval, func() C.mmsb_status_t { return C.put_runs(contextIndex, large, address, 1<<20) })
	seconds, _, bytes := replayed(folder)
	write, read := raw(folder+".raw", large<<20)
	fmt.Printf("%-36s %6.0f MB/s = %.2f x raw write and fsync (%.0f MB/s)\n", "1-MiB deltas, until durable", float64(bytes)/all/1e6,
		write/all, float64(bytes)/write/1e6)
	fmt.Printf("%-36s %6.0f MB/s = %.2f x raw read (%.0f MB/s)\n", "read back", float64(bytes)/seconds/1e6, read/seconds,
		float64(bytes)/read/1e6)
	must(os.RemoveAll(folder))
}
