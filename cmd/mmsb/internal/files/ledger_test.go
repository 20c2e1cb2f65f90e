package files

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/status"
	"libmmsb/gpu/runtime"
)

// The ledger of a budget, as gpu/runtime/shared.go has it: a header and 255 slots of 64 bytes.
const (
	ledgerUnit  = 64
	ledgerBytes = 256 * ledgerUnit
	ledgerMagic = 0x3172656764656c6d
)

var ledgerSpots = []spot{{"magic", 0, 8}, {"version", 8, 4}, {"slots", 12, 4}, {"limit", 16, 8}, {"rest", 24, 40}}

// ledgers lies in ledgers.
type ledgers struct{ t *testing.T }

func (l *ledgers) try(x *trial, number uint64) (problems []string) {
	raw := make([]byte, ledgerBytes)
	limit := boundaries[x.random.IntN(len(boundaries))]
	put64(raw, 0, ledgerMagic)
	put32(raw, 8, 1)
	put32(raw, 12, 255)
	put64(raw, 16, limit)
	for range x.random.IntN(4) { // of processes that have died
		put64(raw, ledgerUnit*(1+x.random.IntN(255)), boundaries[x.random.IntN(len(boundaries))])
	}
	switch what := x.random.IntN(4); {
	case number == *firstFile || what == 0:
		x.tell("none", "")
	case what == 1:
		raw = raw[:x.random.IntN(len(raw))]
		x.tell("length", fmt.Sprint(len(raw)))
	case what == 2:
		raw = append(raw, make([]byte, 1+x.random.IntN(5000))...)
		x.tell("length", fmt.Sprint(len(raw)))
	default:
		x.tell("header", lieAt(x.random, raw, ledgerSpots[x.random.IntN(len(ledgerSpots))]))
	}
	good := len(raw) == ledgerBytes && get64(raw, 0) == ledgerMagic && get32(raw, 8) == 1 && get32(raw, 12) == 255
	path := filepath.Join(x.folder, "ledger")
	require.NoError(l.t, os.WriteFile(path, raw, 0o600))
	wrong := func(format string, arguments ...any) { problems = append(problems, fmt.Sprintf(format, arguments...)) }
	opened, err := runtime.OpenLedger(path, 0)
	if (err == nil) != good || err != nil && !refused(err) {
		wrong("a ledger that is good (%v) is opened: %v", good, err)
	}
	if err != nil {
		return problems
	}
	defer opened.Close()
	x.fate = "accepted"
	limit = get64(raw, 16)
	if opened.Limit() != limit {
		wrong("the limit is %d, not %d", opened.Limit(), limit)
	}
	if _, ok, err := opened.Take(limit); !ok || err != nil {
		wrong("%d bytes do not fit, though all that is charged is of the dead: %v", limit, err)
	}
	if _, ok, _ := opened.Take(1); ok {
		wrong("a byte more than the limit fits")
	}
	opened.Give(limit)
	// Another cuts it short, or writes over it, while it is open.
	if x.random.IntN(2) == 0 {
		require.NoError(l.t, os.Truncate(path, x.random.Int64N(ledgerBytes)))
	} else {
		require.NoError(l.t, os.WriteFile(path, make([]byte, ledgerBytes), 0o600))
	}
	if _, ok, err := opened.Take(1); ok || err == nil ||
		status.CodeOf(err) != status.Corrupt && status.CodeOf(err) != status.Format {
		wrong("a ledger that was cut short takes a byte: %v, %v", ok, err)
	}
	opened.Charged()
	return problems
}

func TestReadersOfLedgersAgree(t *testing.T) { campaign(t, "ledgers", &ledgers{t}, 2000, 2) }
