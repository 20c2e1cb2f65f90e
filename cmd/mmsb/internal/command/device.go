// mmsb device: lists devices.

package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"libmmsb/core/status"
)

// Device is what the tool shows of a device.
type Device struct {
	Ordinal         int        `json:"ordinal"`
	Name            string     `json:"name"`
	Simulated       bool       `json:"simulated"`
	PCI             string     `json:"pci,omitempty"`
	UUID            string     `json:"uuid"`
	Bytes           uint64     `json:"bytes"`
	FreeBytes       uint64     `json:"free_bytes"`
	Capability      string     `json:"capability"` // "9.0"
	Multiprocessors int        `json:"multiprocessors"`
	NUMANode        *int       `json:"numa_node"` // nil = not known
	Telemetry       *Telemetry `json:"telemetry"` // nil = none
}

// Telemetry is what NVIDIA's management library tells of a device; what it does not tell is -1.
type Telemetry struct {
	BytesOfOthers  int64    `json:"bytes_of_others"`
	Utilization    int      `json:"utilization"` // percent
	Temperature    int      `json:"temperature"` // degrees Celsius
	PCIeGeneration int      `json:"pcie_generation"`
	PCIeLanes      int      `json:"pcie_lanes"`
	Links          []string `json:"nvlinks"` // the PCI addresses at their other ends
	Paths          []string `json:"paths"`   // to each device, in the order of the list
}

// Devices lists devices: as many simulated ones as are asked for, or with 0 those of the driver.
type Devices func(simulated int) ([]Device, error)

func (r *run) device() *cobra.Command {
	return group("device", "inspect devices", r.deviceList())
}

func (r *run) deviceList() *cobra.Command {
	var simulate int
	c := &cobra.Command{Use: "ls", Short: "list the devices", Args: takes("no argument", 0, 0),
		Long: `ls lists the devices that libmmsb can use, by the driver's number, and what NVIDIA's management library reports of
them: utilisation, temperature, memory of other processes, links, and the paths between devices.`,
		Example: "  mmsb device ls\n  mmsb device ls --simulate 2 --json",
	}
	c.Flags().IntVar(&simulate, "simulate", 0, "list `N` simulated devices instead")
	asJSON, show := jsonFlag(c), bytesFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if c.Flags().Changed("simulate") && simulate < 1 {
			return misused(c, fmt.Sprintf("--simulate is %d, at least 1 is needed", simulate))
		}
		if r.Devices == nil {
			return status.Errorf(status.Unsupported, "cannot list devices: this mmsb was built without C")
		}
		devices, err := r.Devices(simulate)
		if err != nil {
			return err
		}
		if *asJSON {
			encoded(r.out, map[string][]Device{"devices": devices})
		} else {
			r.showDevices(devices, *show)
		}
		return nil
	}
	return c
}

func (r *run) showDevices(devices []Device, show sizes) {
	table := newTable(r.out, ">device", "name", ">memory", ">free", ">capability", ">use", ">temperature", "pci", ">numa",
		"nvlinks", "paths")
	for _, d := range devices {
		use, temperature, links, paths := "-", "-", "-", "-"
		if t := d.Telemetry; t != nil {
			use, temperature = told(t.Utilization, "%"), told(t.Temperature, " °C")
			if len(t.Links) > 0 {
				links = fmt.Sprint(len(t.Links))
			}
			if len(t.Paths) > 0 {
				paths = strings.Join(t.Paths, ", ")
			}
		}
		numa, pci := "-", "-"
		if d.NUMANode != nil {
			numa = fmt.Sprint(*d.NUMANode)
		}
		if d.PCI != "" {
			pci = d.PCI
		}
		table.add(fmt.Sprint(d.Ordinal), shown(d.Name), show.of(d.Bytes), show.of(d.FreeBytes), d.Capability, use, temperature,
			pci, numa, links, paths)
	}
	table.finish()
}

// told is a figure with its unit.
func told(figure int, unit string) string {
	if figure < 0 {
		return "-"
	}
	return fmt.Sprint(figure) + unit
}
