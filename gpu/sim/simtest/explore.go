// Package simtest runs programs of tests on simulated devices, in every schedule.
package simtest

import (
	"fmt"

	"libmmsb/core/status"
	"libmmsb/gpu/sim"
)

// maxChoices is the most choices in one run: a program that makes more polls without end.
const maxChoices = 10_000

// Schedule is one way to run a program: which choice was made at each point where there were several.
type Schedule []int

// explorer makes the choices of a schedule, and the first one where that has no more.
type explorer struct {
	schedule Schedule
	choices  []int // how many ways there are at each
	at       int   // the next choice
	problem  error
}

func (e *explorer) choose(choices int) int {
	if choices == 1 {
		return 0
	}
	at := e.at
	if at >= maxChoices {
		e.problem = status.Errorf(status.Limit, "more than %d choices: the program polls without end", maxChoices)
		return 0
	}
	e.at++
	if at == len(e.schedule) {
		e.schedule = append(e.schedule, 0)
	}
	if at == len(e.choices) {
		e.choices = append(e.choices, choices)
	}
	if e.choices[at] != choices || e.schedule[at] >= choices {
		e.problem = status.Errorf(status.InvalidState, "choice %d now has %d alternatives: the program does not repeat", at,
			choices)
		return 0
	}
	return e.schedule[at]
}

// next is the schedule after the one that was run; false: it was the last.
func (e *explorer) next() bool {
	for at := len(e.choices) - 1; at >= 0; at-- {
		if e.schedule[at]+1 < e.choices[at] {
			e.schedule = append(e.schedule[:at:at], e.schedule[at]+1)
			e.choices = e.choices[:at+1]
			return true
		}
	}
	return false
}

// Explore runs a program on new devices in every schedule: at each call that sees how far the devices are, any number of what can
// run has run, in any order. The program must do the same each time it sees the same, in one goroutine, and must not poll without
// end. What an operation does is seen only through such calls, so schedules that differ elsewhere are the same. After the program
// everything runs.
//
// It returns how many schedules there are, or stops at the first that fails: a violation, memory that is not given back, or the
// program's own error. Replay runs that one again.
func Explore(options sim.Options, program func(*sim.Driver) error) (schedules int, err error) {
	e := &explorer{}
	for {
		schedules++
		if err := e.run(options, program); err != nil {
			return schedules, fmt.Errorf("schedule %v: %w", e.schedule, err)
		}
		if !e.next() {
			return schedules, nil
		}
	}
}

// Replay runs a program in one schedule.
func Replay(options sim.Options, schedule Schedule, program func(*sim.Driver) error) error {
	e := &explorer{schedule: schedule}
	return e.run(options, program)
}

func (e *explorer) run(options sim.Options, program func(*sim.Driver) error) error {
	e.at = 0
	options.Scheduler, options.Choose = sim.Chosen, e.choose
	d, err := sim.New(options)
	if err != nil {
		return err
	}
	defer d.Close()
	if err = program(d); err == nil && e.at < len(e.choices) {
		err = status.Errorf(status.InvalidState, "%d choices, %d expected: the program does not repeat", e.at, len(e.choices))
	}
	if e.problem != nil {
		err = e.problem
	}
	d.Finish()
	if err == nil {
		err = d.Problems()
	}
	return err
}
