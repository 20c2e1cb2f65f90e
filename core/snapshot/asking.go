// Work that can be told to end.

package snapshot

import "slices"

// asking says with an error that work is to end; nil: it never is.
type asking func() error

// askEvery is after how many small steps it is asked again: some milliseconds.
const askEvery = 1 << 16

func (a asking) ask() error {
	if a == nil {
		return nil
	}
	return a()
}

// sorted sorts a list, and gives up in the middle where it is told to.
func sorted[E any](list []E, goesOn asking, compare func(a, b E) int) (err error) {
	if goesOn == nil {
		slices.SortFunc(list, compare)
		return nil
	}
	type told struct{ err error }
	defer func() {
		if value := recover(); value != nil {
			ended, ours := value.(told)
			if !ours {
				panic(value)
			}
			err = ended.err
		}
	}()
	steps := 0
	slices.SortFunc(list, func(a, b E) int {
		if steps++; steps%askEvery == 0 {
			if err := goesOn(); err != nil {
				panic(told{err}) // a sort has no other way out
			}
		}
		return compare(a, b)
	})
	return nil
}
