//go:build invariants

package safego_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"

	"libmmsb/core/invariant"
	"libmmsb/core/safego"
)

// The process of this test ends itself: no guard keeps a broken invariant inside.
func TestABrokenInvariantEndsTheProcess(t *testing.T) {
	const child = "MMSB_TEST_BREAK"
	if os.Getenv(child) != "" {
		safego.Go(func() { invariant.Assert(false, "%d is planted", 17) })
		select {}
	}
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), child+"=yes")
	output, err := command.CombinedOutput()
	assert.Error(t, err)
	assert.Contains(t, string(output), "invariant broken: 17 is planted")
	assert.Contains(t, string(output), "invariant_test.go", "the stack of the assertion")
}
