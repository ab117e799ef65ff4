package match

// weight is the value of a pair or of a set of pairs. It is compared lexicographically: an
// earlier field outweighs any amount of a later one.
type weight struct {
	filled int64 // required slots
	share  int64 // of constraints that hold, in parts of whole
	spared int64 // excess calls avoided, then optional slots filled; see unmatchedWeight
}

// whole represents a share of 1. It is divisible by all numbers up to 22, so that sums of
// shares are exact for slots with up to 22 constraints.
const whole = 232_792_560

// shareOf returns the share of constraints that hold, rounded down. It is less than whole unless all
// hold.
func shareOf(f Fit) int64 {
	if f.Full() {
		return whole
	}
	return int64(f.Satisfied) * whole / int64(f.Total)
}

func (w weight) plus(o weight) weight {
	return weight{w.filled + o.filled, w.share + o.share, w.spared + o.spared}
}

func (w weight) minus(o weight) weight {
	return weight{w.filled - o.filled, w.share - o.share, w.spared - o.spared}
}

func (w weight) less(o weight) bool {
	if w.filled != o.filled {
		return w.filled < o.filled
	}
	if w.share != o.share {
		return w.share < o.share
	}
	return w.spared < o.spared
}

// row can take as many columns as its capacity.
type row struct {
	capacity int
	edges    []edge
}

// edge is a column that can be assigned to a row, with the weight of that.
type edge struct {
	col    int
	weight weight // greater than the zero weight
}

// assign assigns columns to rows, in any order, so that the sum of the weights of the used edges is largest:
// a maximum-weight matching. For pairs that must be in order, see align. It returns the row of each column,
// or -1. The same input gives the same result.
//
// It fills one unit of a row after another along a shortest augmenting path with potentials: the Hungarian
// method, sparse and rectangular. With R rows of U units in total, and C columns, it takes O(U·R·C) time.
func assign(rows []row, cols int) []int {
	a := assignment{
		rows: rows, u: make([]weight, len(rows)), v: make([]weight, cols),
		owner: make([]int, cols), from: make([]int, cols), dist: make([]weight, cols), state: make([]colState, cols),
		via: make([]int, len(rows)), depth: make([]weight, len(rows)), seen: make([]bool, len(rows)),
	}
	for c := range a.owner {
		a.owner[c] = -1
	}
	for r := range rows {
		for _, e := range rows[r].edges {
			if value := e.weight.minus(a.v[e.col]); a.u[r].less(value) {
				a.u[r] = value
			}
		}
		for unit := 0; unit < rows[r].capacity; unit++ {
			if !a.augment(r) {
				break
			}
		}
	}
	return a.owner
}

// Fill assigns as many columns as possible to rows that fit them, and to each row at most its capacity. It
// returns the row of each column, or -1. If not all columns can be assigned, earlier columns take precedence.
func Fill(capacity []int, cols int, fits func(row, col int) bool) []int {
	rows := make([]row, len(capacity))
	for r := range rows {
		rows[r].capacity = capacity[r]
		for c := range cols {
			if fits(r, c) {
				rows[r].edges = append(rows[r].edges, edge{c, weight{filled: 1, spared: int64(cols - c)}})
			}
		}
	}
	return assign(rows, cols)
}

type colState uint8

const (
	unknown colState = iota
	reached          // a path to it is known
	settled          // its shortest path is known
)

// assignment is a partial matching. For every edge, u[row] + v[col] is at least its weight,
// with equality if the edge is used. An unassigned column has v = 0, and a row with free
// capacity has u = 0.
type assignment struct {
	rows  []row
	u, v  []weight
	owner []int

	// The following are the state of one search. dist and depth are lengths of shortest paths to columns and
	// rows.
	from    []int // the row that a column is reached from
	via     []int // the column, owned by the row, from which the row is reached
	dist    []weight
	depth   []weight
	state   []colState
	seen    []bool
	touched []int // reached columns
	order   []int // visited rows
}

// augment finds a column for one more unit of row start, and reports whether one increases the total weight.
// Another row may lose a column.
func (a *assignment) augment(start int) bool {
	a.reset()
	a.visit(start, -1, weight{})
	quitter, length := start, a.u[start] // the row that would end up without a column
	for {
		col := a.nearest()
		if col < 0 || !a.dist[col].less(length) {
			a.settle(length)
			a.flip(a.via[quitter], start)
			return quitter != start
		}
		owner := a.owner[col]
		if owner < 0 {
			a.settle(a.dist[col])
			a.flip(col, start)
			return true
		}
		a.visit(owner, col, a.dist[col])
		if quit := a.dist[col].plus(a.u[owner]); quit.less(length) {
			quitter, length = owner, quit
		}
	}
}

func (a *assignment) reset() {
	for _, c := range a.touched {
		a.state[c] = unknown
	}
	for _, r := range a.order {
		a.seen[r] = false
	}
	a.touched, a.order = a.touched[:0], a.order[:0]
}

// visit reaches all columns to which row r has edges. Columns that r owns are at the same distance as r, and
// lead to no other rows.
func (a *assignment) visit(r, via int, depth weight) {
	a.seen[r], a.via[r], a.depth[r] = true, via, depth
	a.order = append(a.order, r)
	base := depth.plus(a.u[r])
	for _, e := range a.rows[r].edges {
		state, owned := a.state[e.col], a.owner[e.col] == r
		if state == settled {
			continue
		}
		length := base.plus(a.v[e.col]).minus(e.weight)
		if state == unknown {
			a.touched = append(a.touched, e.col)
		} else if !owned && !length.less(a.dist[e.col]) {
			continue
		}
		a.dist[e.col] = length
		if owned {
			a.state[e.col] = settled
		} else {
			a.state[e.col], a.from[e.col] = reached, r
		}
	}
}

// nearest returns the reached but unsettled column with the shortest path, or -1. Among equals it prefers a
// free column.
func (a *assignment) nearest() int {
	best := -1
	for _, c := range a.touched {
		switch {
		case a.state[c] != reached:
		case best < 0, a.dist[c].less(a.dist[best]),
			a.owner[c] < 0 && a.owner[best] >= 0 && a.dist[c] == a.dist[best]:
			best = c
		}
	}
	return best
}

// settle updates the potentials after a search that ended with a path of the given length.
func (a *assignment) settle(length weight) {
	for _, r := range a.order {
		a.u[r] = a.u[r].minus(length.minus(a.depth[r]))
	}
	for _, c := range a.touched {
		if a.state[c] == settled {
			a.v[c] = a.v[c].plus(length.minus(a.dist[c]))
		}
	}
}

// flip assigns each column of the path that ends at col to the row that reached it.
func (a *assignment) flip(col, start int) {
	for col >= 0 {
		r := a.from[col]
		a.owner[col] = r
		if r == start {
			return
		}
		col = a.via[r]
	}
}
