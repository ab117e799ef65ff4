package report

import (
	"cmp"
	"slices"

	"github.com/waza-isolate/waza/internal/text"
)

// Label is a text at a bar, where there is room for it.
type Label struct {
	X     string
	Text  string
	Class string // in: on the bar; left: it ends there; else it begins there
}

// Shares of the picture's width, in percent, in a window of a thousand pixels: what a
// column of a label takes at most, and what is left beside it.
const (
	labelColumn = .8
	labelMargin = .7
	markWide    = 1.2
)

// label labels the bars and marks that have room: on them, behind them, or before.
func (l *Lane) label() {
	rows := map[int][]*Bar{}
	for i := range l.Bars {
		bar := &l.Bars[i]
		rows[bar.Y] = append(rows[bar.Y], bar)
	}
	for _, bars := range rows {
		slices.SortStableFunc(bars, func(a, b *Bar) int { return cmp.Compare(a.At, b.At) })
		labelRow(bars)
	}
	var marks []*Bar
	for _, mark := range l.Marks {
		bar := &Bar{At: mark.At - markWide/2, Wide: markWide}
		if mark.Says != "" {
			bar.Says = []string{mark.Says}
		}
		marks = append(marks, bar)
	}
	labelRow(marks)
	for i, bar := range marks {
		l.Marks[i].Label = bar.Label
	}
}

// labelRow labels bars that are beside each other, in their order.
func labelRow(bars []*Bar) {
	from := 0.0 // where there is room before the next bar
	for i, bar := range bars {
		to := 100.0
		if i+1 < len(bars) {
			to = bars[i+1].At
		}
		from = bar.label(from, to)
	}
}

// label takes the first text that there is room for from one place to another, and returns
// where the room behind it begins.
func (b *Bar) label(from, to float64) float64 {
	end := b.At + b.Wide
	for _, s := range b.Says {
		needs := labelColumn*float64(text.Columns(s)) + 2*labelMargin
		switch {
		case b.Wide >= needs:
			b.Label = Label{inPercent(b.At + labelMargin), s, "in " + b.Kind}
			return end
		case to-end >= needs:
			b.Label = Label{inPercent(end + labelMargin), s, ""}
			return end + needs
		case b.At-from >= needs:
			b.Label = Label{inPercent(b.At - labelMargin), s, "left"}
			return end
		}
	}
	return end
}
