// The exports behind page.c: what about pages needs a decision of Go's.

package main

/*
#include "mmsb.h"
*/
import "C"

import (
	"slices"
	"unsafe"

	"libmmsb/core/page"
	"libmmsb/core/status"
	"libmmsb/core/ticket"
)

func createOptions(o *C.mmsb_page_options_t) page.CreateOptions {
	return page.CreateOptions{
		ID: uint64(o.id), Location: int32(o.location), Device: int32(o.device), NUMANode: int32(o.numa_node),
		Uninitialised: o.contents == C.MMSB_PAGE_UNINITIALISED,
	}
}

// createManyOptions are those of count pages; sizes and ids are copied.
func createManyOptions(o *C.mmsb_page_options_t, count C.size_t) page.CreateOptions {
	options := createOptions(o)
	options.Sizes, options.IDs = numbers(o.sizes, count), numbers(o.ids, count)
	return options
}

// numbers is a copy of an array in C memory; nil where that is NULL, and only there.
func numbers(first *C.uint64_t, count C.size_t) []uint64 {
	if first == nil {
		return nil
	}
	return slices.Clone(array((*uint64)(first), count))
}

//export mmsbgo_page_create
func mmsbgo_page_create(context C.mmsb_context_t, size C.uint64_t, o *C.mmsb_page_options_t,
	to *C.mmsb_page_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onContext(context, func(c *page.Context) error { return put(to)(c.Create(uint64(size), createOptions(o))) })
}

//export mmsbgo_page_create_many
func mmsbgo_page_create_many(context C.mmsb_context_t, size C.uint64_t, count C.size_t, o *C.mmsb_page_options_t,
	work *C.mmsb_work_options_t, to *C.mmsb_page_t) (code C.mmsb_status_t) {
	defer guard(&code)
	options := createManyOptions(o, count)
	if err := page.CheckCreateMany(uint64(context), uint64(size), options); err != nil {
		return failed(err)
	}
	after, err := afterTickets(work)
	if err != nil {
		return failed(err)
	}
	return failed(page.CreateManyWithin(uint64(context), uint64(size), options, pages(to, count), after, timeoutOf(work)))
}

//export mmsbgo_page_create_many_start
func mmsbgo_page_create_many_start(context C.mmsb_context_t, size C.uint64_t, count C.size_t, o *C.mmsb_page_options_t,
	work *C.mmsb_work_options_t, to *C.mmsb_page_t, ticketTo *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	options := createManyOptions(o, count)
	if err := page.CheckCreateMany(uint64(context), uint64(size), options); err != nil {
		return failed(err)
	}
	return startWork(uint64(count), work, ticketTo, func(w *ticket.Work) error {
		made := make([]uint64, int(count))
		err := page.CreateMany(uint64(context), uint64(size), options, made, w)
		if status.Done(err) {
			copy(pages(to, count), made)
		}
		return err
	})
}

//export mmsbgo_page_clone
func mmsbgo_page_clone(from C.mmsb_page_t, id C.uint64_t, to *C.mmsb_page_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(put(to)(page.Clone(uint64(from), uint64(id))))
}

//export mmsbgo_page_clone_many
func mmsbgo_page_clone_many(from *C.mmsb_page_t, ids *C.uint64_t, count C.size_t, to *C.mmsb_page_t,
	bad *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	index, err := page.CloneMany(pages(from, count), numbers(ids, count), pages(to, count))
	badIndex(bad, index, err)
	return failed(err)
}

func adoptOptions(o *C.mmsb_adopt_options_t) page.AdoptOptions {
	return page.AdoptOptions{
		ID: uint64(o.id), Location: int32(o.location), Device: int32(o.device), ReadOnly: o.read_only != 0,
		Release: uintptr(unsafe.Pointer(o.release)), User: uintptr(o.user), Stream: uintptr(o.stream),
	}
}

//export mmsbgo_page_adopt
func mmsbgo_page_adopt(context C.mmsb_context_t, memory C.uintptr_t, size C.uint64_t, o *C.mmsb_adopt_options_t,
	to *C.mmsb_page_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onContext(context, func(c *page.Context) error {
		return put(to)(c.Adopt(uintptr(memory), uint64(size), adoptOptions(o)))
	})
}

//export mmsbgo_page_adopt_many
func mmsbgo_page_adopt_many(context C.mmsb_context_t, memories *C.uintptr_t, sizes, ids *C.uint64_t, count C.size_t,
	o *C.mmsb_adopt_options_t, to *C.mmsb_page_t, bad *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onContext(context, func(c *page.Context) error {
		addresses := array((*uintptr)(unsafe.Pointer(memories)), count)
		index, err := c.AdoptMany(addresses, numbers(sizes, count), numbers(ids, count), adoptOptions(o), pages(to, count))
		badIndex(bad, index, err)
		return err
	})
}

//export mmsbgo_page_release
func mmsbgo_page_release(from C.mmsb_page_t, memory *C.uintptr_t, size *C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	address, length, err := page.Release(uint64(from))
	if status.Done(err) {
		*memory, *size = C.uintptr_t(address), C.uint64_t(length)
	}
	return failed(err)
}

//export mmsbgo_memory_free
func mmsbgo_memory_free(memory C.uintptr_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.FreeReleased(uintptr(memory)))
}

//export mmsbgo_page_lookup
func mmsbgo_page_lookup(context C.mmsb_context_t, id C.uint64_t, to *C.mmsb_page_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onContext(context, func(c *page.Context) error { return put(to)(c.Lookup(uint64(id))) })
}

//export mmsbgo_page_lookup_many
func mmsbgo_page_lookup_many(context C.mmsb_context_t, ids *C.uint64_t, count C.size_t, to *C.mmsb_page_t,
	bad *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return onContext(context, func(c *page.Context) error {
		index, err := c.LookupMany(array((*uint64)(ids), count), pages(to, count))
		badIndex(bad, index, err)
		return err
	})
}

//export mmsbgo_page_resize
func mmsbgo_page_resize(of C.mmsb_page_t, size C.uint64_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.Resize(uint64(of), uint64(size)))
}

//export mmsbgo_page_resize_many
func mmsbgo_page_resize_many(of *C.mmsb_page_t, sizes *C.uint64_t, count C.size_t, bad *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	index, err := page.ResizeMany(pages(of, count), numbers(sizes, count))
	badIndex(bad, index, err)
	return failed(err)
}

//export mmsbgo_page_migrate
func mmsbgo_page_migrate(of C.mmsb_page_t, location C.mmsb_location_t, device C.int32_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.Migrate(uint64(of), int32(location), int32(device)))
}

//export mmsbgo_page_migrate_many
func mmsbgo_page_migrate_many(of *C.mmsb_page_t, count C.size_t, location C.mmsb_location_t, device C.int32_t,
	work *C.mmsb_work_options_t, statuses *C.mmsb_status_t, bad *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	index, err := page.CheckMigrateMany(pages(of, count), int32(location), int32(device))
	if err == nil {
		results := codes(statuses, count)
		err = waitOnPages(results, work, func(w *ticket.Work) (err error) {
			index, err = page.MigrateMany(pages(of, count), int32(location), int32(device), results, w)
			return err
		})
	}
	badIndex(bad, index, err)
	return failed(err)
}

//export mmsbgo_page_migrate_many_start
func mmsbgo_page_migrate_many_start(of *C.mmsb_page_t, count C.size_t, location C.mmsb_location_t, device C.int32_t,
	work *C.mmsb_work_options_t, statuses *C.mmsb_status_t, to *C.mmsb_ticket_t) (code C.mmsb_status_t) {
	defer guard(&code)
	moved := slices.Clone(pages(of, count))
	if _, err := page.CheckMigrateMany(moved, int32(location), int32(device)); err != nil {
		return failed(err)
	}
	results := codes(statuses, count)
	return startOnPages(results, uint64(count), work, to, func(w *ticket.Work) error {
		_, err := page.MigrateMany(moved, int32(location), int32(device), results, w)
		return err
	})
}

// codes are statuses in C memory; none where that is NULL.
func codes(first *C.mmsb_status_t, count C.size_t) []int32 {
	if first == nil {
		return nil
	}
	return array((*int32)(unsafe.Pointer(first)), count)
}

func bytes(first unsafe.Pointer, count C.size_t) []byte {
	return unsafe.Slice((*byte)(first), int(count))
}

//export mmsbgo_page_metadata_set
func mmsbgo_page_metadata_set(of C.mmsb_page_t, key *C.char, keyLength C.size_t, value unsafe.Pointer,
	valueLength C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.SetMetadata(uint64(of), bytes(unsafe.Pointer(key), keyLength), bytes(value, valueLength)))
}

//export mmsbgo_page_metadata_get
func mmsbgo_page_metadata_get(of C.mmsb_page_t, key *C.char, keyLength C.size_t, value unsafe.Pointer, capacity C.size_t,
	length *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.GetMetadata(uint64(of), bytes(unsafe.Pointer(key), keyLength), func(found []byte) error {
		return list(found, bytes(value, capacity), length)
	}))
}

//export mmsbgo_page_metadata_remove
func mmsbgo_page_metadata_remove(of C.mmsb_page_t, key *C.char, keyLength C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.RemoveMetadata(uint64(of), bytes(unsafe.Pointer(key), keyLength)))
}

//export mmsbgo_page_metadata_keys
func mmsbgo_page_metadata_keys(of C.mmsb_page_t, keys unsafe.Pointer, capacity C.size_t, length,
	count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.MetadataKeys(uint64(of), func(found []byte, n int) error {
		if count != nil {
			*count = C.size_t(n)
		}
		return list(found, bytes(keys, capacity), length)
	}))
}

//export mmsbgo_page_metadata_export
func mmsbgo_page_metadata_export(of C.mmsb_page_t, blob unsafe.Pointer, capacity C.size_t,
	length *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.ExportMetadata(uint64(of), func(found []byte) error { return list(found, bytes(blob, capacity), length) }))
}

//export mmsbgo_page_metadata_import
func mmsbgo_page_metadata_import(of C.mmsb_page_t, blob unsafe.Pointer, length C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.ImportMetadata(uint64(of), bytes(blob, length)))
}

//export mmsbgo_page_dependency_add
func mmsbgo_page_dependency_add(parent, child C.mmsb_page_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.AddDependency(uint64(parent), uint64(child)))
}

//export mmsbgo_page_dependency_remove
func mmsbgo_page_dependency_remove(parent, child C.mmsb_page_t) (code C.mmsb_status_t) {
	defer guard(&code)
	return failed(page.RemoveDependency(uint64(parent), uint64(child)))
}

//export mmsbgo_page_neighbours
func mmsbgo_page_neighbours(of C.mmsb_page_t, parents C.int32_t, to *C.mmsb_page_t, capacity C.size_t,
	count *C.size_t) (code C.mmsb_status_t) {
	defer guard(&code)
	find := page.Children
	if parents != 0 {
		find = page.Parents
	}
	found, err := find(uint64(of))
	if err != nil {
		return failed(err)
	}
	return failed(list(found, pages(to, capacity), count))
}
