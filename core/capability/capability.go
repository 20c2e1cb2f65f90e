// Package capability says what this process can do, and why not where it cannot.
package capability

import (
	"os"
	"strings"

	"libmmsb/core/track"

	"golang.org/x/sys/unix"
)

// Capability is one thing that may be possible or not.
type Capability struct {
	Name      string
	Available bool
	Reason    string
}

// List asks the system anew at each call.
func List() []Capability {
	absent := func(name, reason string) Capability { return Capability{Name: name, Reason: reason} }
	return []Capability{
		hugePages(),
		membarrier(),
		writeTracking(),
		{Name: "simulated device", Available: true, Reason: "available in a context that asks for it"},
		absent("nccl", "collectives are not in this release"),
		absent("nixl", "transfers are not in this release"),
	}
}

// hugePages reads the kernel's setting, like "always [madvise] never".
func hugePages() Capability {
	const path = "/sys/kernel/mm/transparent_hugepage/enabled"
	content, err := os.ReadFile(path)
	if err != nil {
		return Capability{Name: "huge pages", Reason: err.Error()}
	}
	setting := strings.TrimSpace(string(content))
	return Capability{Name: "huge pages", Available: !strings.Contains(setting, "[never]"), Reason: path + ": " + setting}
}

// writeTracking tells incremental snapshots what was written through pointers; without it they compare checksums.
func writeTracking() Capability {
	if err := track.Available(); err != nil {
		return Capability{Name: "write tracking", Reason: err.Error() + "; checksums are compared instead"}
	}
	return Capability{Name: "write tracking", Available: true, Reason: "with userfaultfd and PAGEMAP_SCAN"}
}

// membarrier is what keeps creating a page free of fences; without it every create and destroy pays one.
func membarrier() Capability {
	const expedited = 1 << 3
	commands, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, 0, 0, 0)
	switch {
	case errno != 0:
		return Capability{Name: "membarrier", Reason: "refused by the kernel: " + errno.Error() +
			"; create and destroy use fences"}
	case commands&expedited == 0:
		return Capability{Name: "membarrier",
			Reason: "the kernel lacks private expedited commands; create and destroy use fences"}
	}
	return Capability{Name: "membarrier", Available: true, Reason: "with private expedited commands"}
}
