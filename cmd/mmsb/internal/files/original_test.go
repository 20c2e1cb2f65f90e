package files

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"libmmsb/core/metadata"
)

// The original's file, version 2, as docs/snapshot-format.md has it.

// originals lies in files of version 2. They are read like other snapshots.
type originals struct{ *snapshots }

// originalFile writes a random good file, and says where its fields lie and where its pages begin.
func originalFile(random *rand.Rand) (raw []byte, spots []spot, pages []int) {
	a := &author{random: random}
	count := random.IntN(6)
	raw = append(raw, "MMSBSNAP"...)
	raw = binary.LittleEndian.AppendUint32(raw, 2)
	raw = binary.LittleEndian.AppendUint32(raw, uint32(count))
	raw = binary.LittleEndian.AppendUint64(raw, random.Uint64())
	spots = []spot{{"magic", 0, 8}, {"version", 8, 4}, {"pages", 12, 4}}
	word := func(name string, width int, value uint64) {
		spots = append(spots, spot{name, len(raw), width})
		raw = binary.LittleEndian.AppendUint64(raw, value)[:len(raw)+width]
	}
	for id := uint64(1); id <= uint64(count); id++ {
		p := a.page()
		pages = append(pages, len(raw))
		word("id", 8, id)
		word("size", 8, p.size)
		word("epoch", 4, p.epoch)
		word("location", 4, 0)
		word("length of the metadata", 4, uint64(len(p.blob)))
		if len(p.blob) > 0 {
			spots = append(spots, spot{"number of keys", len(raw), 4}, spot{"length of a key", len(raw) + 4, 4})
		}
		raw = append(raw, p.blob...)
		word("length of the data", 4, p.size)
		raw = append(raw, p.content...)
	}
	return raw, spots, append(pages, len(raw))
}

func (o *originals) try(x *trial, number uint64) []string {
	raw, spots, pages := originalFile(rand.New(rand.NewPCG(number/linesAFile, 3)))
	good := number%linesAFile == 0
	count := len(pages) - 1
	switch what := x.random.IntN(10); {
	case good:
		x.tell("none", "")
	case what < 6:
		x.tell("field", lieAt(x.random, raw, spots[x.random.IntN(len(spots))]))
	case what == 6:
		raw = raw[:x.random.IntN(len(raw))]
		x.tell("length", fmt.Sprint(len(raw)))
	case what == 7:
		raw = append(raw, make([]byte, 1+x.random.IntN(100))...)
		x.tell("length", fmt.Sprint(len(raw)))
	case count > 0: // a page comes again, is missing, or is counted though it is not there
		from, at := x.random.IntN(count), x.random.IntN(count+1)
		one := slices.Clone(raw[pages[from]:pages[from+1]])
		if what == 8 {
			raw = slices.Insert(raw, pages[at], one...)
			count++
		} else {
			raw = slices.Delete(raw, pages[from], pages[from+1])
			count--
		}
		if x.random.IntN(4) > 0 {
			put32(raw, 12, uint32(count))
		}
		x.tell("pages", fmt.Sprintf("page %d, lie %d", from, what))
	default:
		x.tell("none", "there are no pages")
	}
	var made files
	made.put("0.mmsb", raw)
	onDisk, err := made.write(x.folder)
	require.NoError(o.t, err)
	by, err := originalReference(raw)
	problems := o.readAs(x, by, err, filepath.Join(x.folder, "0.mmsb"), onDisk, number)
	if good && x.fate != "accepted" {
		problems = append(problems, "a good file is "+x.fate)
	}
	return problems
}

// originalReference reads a file by the document.
func originalReference(raw []byte) (*sight, error) {
	take := func(n uint64) []byte {
		if n > uint64(len(raw)) {
			return nil
		}
		taken := raw[:n]
		raw = raw[n:]
		return taken
	}
	head := take(24)
	if head == nil || string(head[:8]) != "MMSBSNAP" || get32(head, 8) != 2 {
		return nil, wrong("the header")
	}
	found := &sight{state: &state{pages: map[uint64]pageState{}}, faults: map[uint64]string{}}
	for range get32(head, 12) {
		entry := take(28)
		if entry == nil {
			return nil, wrong("an entry is missing")
		}
		id, blob := get64(entry, 0), take(uint64(get32(entry, 24)))
		length := take(4)
		if id == 0 || get32(entry, 20) > 2 || blob == nil || length == nil || uint64(get32(length, 0)) != get64(entry, 8) ||
			get32(length, 0) == 0 {
			return nil, wrong("page %d", id)
		}
		content := take(uint64(get32(length, 0)))
		if _, twice := found.state.pages[id]; twice || content == nil {
			return nil, wrong("page %d is there twice, or not whole", id)
		}
		if _, err := metadata.Validate(blob); err != nil {
			found.faults[id] = "metadata"
		}
		found.state.pages[id] = pageState{size: uint64(len(content)), epoch: uint64(get32(entry, 16)), version: 1,
			location: int32(get32(entry, 20)), bytes: hashOf(content), attributes: hashOfMetadata(blob)}
	}
	if len(raw) > 0 {
		return nil, wrong("%d bytes behind the last page", len(raw))
	}
	return found, nil
}

func TestReadersOfVersion2Agree(t *testing.T) {
	campaign(t, "version2", &originals{newSnapshots(t)}, 4000, 3)
}
