package main

import (
	"bytes"
	"io"
	"sync"

	"golang.org/x/term"

	"github.com/waza-isolate/waza/internal/liveview"
)

// screen is where a command says things. What is written to it stays, above the lines
// of a view that may be drawn below. It is safe for concurrent use.
type screen struct {
	out io.Writer

	mu    sync.Mutex
	view  liveview.Screen // guarded by mu
	lines []string        // that are drawn; guarded by mu
	held  []byte          // a line that has not ended; guarded by mu
}

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) == 0 {
		return s.out.Write(p)
	}
	s.held = append(s.held, p...)
	end := bytes.LastIndexByte(s.held, '\n') + 1
	text := string(s.held[:end])
	s.held = s.held[end:]
	if text == "" {
		return len(p), nil
	}
	return len(p), s.drawLocked(text, s.lines)
}

// draw writes whole lines that stay, and the view's new ones.
func (s *screen) draw(text string, lines []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(lines) == 0 && len(s.held) > 0 {
		text = string(s.held) + "\n" + text
		s.held = nil
	}
	return s.drawLocked(text, lines)
}

func (s *screen) drawLocked(text string, lines []string) error {
	s.lines = lines
	_, err := io.WriteString(s.out, s.view.Draw(text, lines, s.size().Columns))
	return err
}

// size is the terminal's as it is now.
func (s *screen) size() liveview.Size {
	usual := liveview.Size{Columns: 80, Rows: 24}
	fd, ok := terminalOf(s.out)
	if !ok {
		return usual
	}
	columns, rows, err := term.GetSize(fd)
	if err != nil || columns == 0 || rows == 0 {
		return usual
	}
	return liveview.Size{Columns: columns, Rows: rows}
}
