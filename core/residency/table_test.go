package residency

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// numbersOfChunks are numbers of several chunks, of which some have no others near them.
func numbersOfChunks(random *rand.Rand) (numbers []uint32) {
	for chunk := range uint32(4) {
		for range 1 + random.IntN(5) {
			numbers = append(numbers, chunk*1000+random.Uint32N(1<<pairChunkBits))
		}
	}
	return numbers
}

func TestPairsAreFoundAgain(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var pairs pairTable
		model, numbers := make(map[uint32]*pair), numbersOfChunks(random)
		for range 100 {
			number := numbers[random.IntN(len(numbers))]
			if random.IntN(2) == 0 {
				model[number] = &pair{frame: number}
				pairs.put(number, model[number])
			} else {
				require.Same(t, model[number], pairs.take(number))
				delete(model, number)
			}
			var want []*pair
			for _, number := range numbers {
				want = append(want, model[number])
				require.Same(t, model[number], pairs.get(number))
			}
			require.Equal(t, want, pairs.getAll(numbers, nil))
			require.Equal(t, model, maps.Collect(pairs.all()))
		}
	}
}

func TestWhatIsKnownIsFoundAgain(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 2))
		var known table[uint32]
		model, numbers := make(map[uint32]uint32), numbersOfChunks(random)
		for range 100 {
			number := numbers[random.IntN(len(numbers))]
			switch random.IntN(3) {
			case 0:
				model[number] = number + 1
				known.put(number, number+1)
			case 1:
				model[number] = 1
				known.putAll([]uint32{number}, 1)
			default:
				require.Equal(t, model[number], known.take(number))
				delete(model, number)
			}
			for _, number := range numbers {
				require.Equal(t, model[number], known.get(number))
			}
		}
	}
}
