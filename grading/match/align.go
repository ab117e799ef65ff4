package match

// slot is a position in a sequence of expected calls.
type slot struct {
	loops bool // it takes any number of calls
	// weigh returns the weight of call j, and false if it does not match.
	weigh func(j int) (weight, bool)
}

// Choices for a slot and a call, in the order of preference.
const (
	pair byte = iota
	passCall
	passSlot
)

// align pairs slots with calls, keeps both orders, and maximizes the total weight of the pairs: a weighted
// longest common subsequence. For pairs in any order, see assign. It returns the slot of each call, or -1.
// Among equal calls it prefers earlier ones. It takes O(slots × calls) time and memory.
func align(slots []slot, calls int) []int {
	width := calls + 1
	choices := make([]byte, len(slots)*width)
	below, best := make([]weight, width), make([]weight, width)
	for i := len(slots) - 1; i >= 0; i-- {
		choice := choices[i*width : (i+1)*width]
		best[calls], choice[calls] = weight{}, passSlot
		for j := calls - 1; j >= 0; j-- {
			best[j], choice[j] = below[j], passSlot
			if !best[j+1].less(best[j]) {
				best[j], choice[j] = best[j+1], passCall
			}
			value, ok := slots[i].weigh(j)
			if !ok {
				continue
			}
			rest := below[j+1]
			if slots[i].loops {
				rest = best[j+1]
			}
			if value = value.plus(rest); !value.less(best[j]) {
				best[j], choice[j] = value, pair
			}
		}
		below, best = best, below
	}
	return follow(slots, choices, calls)
}

// follow reads the pairs from the choices for each slot and call.
func follow(slots []slot, choices []byte, calls int) []int {
	paired := make([]int, calls)
	for j := range paired {
		paired[j] = -1
	}
	for i, j := 0, 0; i < len(slots) && j < calls; {
		switch choices[i*(calls+1)+j] {
		case pair:
			paired[j] = i
			j++
			if !slots[i].loops {
				i++
			}
		case passCall:
			j++
		default:
			i++
		}
	}
	return paired
}
