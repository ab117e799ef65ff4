package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Figure is one measured value.
type Figure struct {
	Name    string               `json:"name"`
	What    string               `json:"what"`
	Value   float64              `json:"value"`
	Aim     string               `json:"aim,omitempty"` // empty without a target
	Met     *bool                `json:"met,omitempty"`
	Samples map[string][]float64 `json:"samples,omitempty"`
	Notes   []string             `json:"notes,omitempty"`
}

func (f Figure) atMost(aim float64) Figure {
	met := f.Value <= aim
	f.Aim, f.Met = "≤ "+short(aim), &met
	return f
}

func (f Figure) atLeast(aim float64) Figure {
	met := f.Value >= aim
	f.Aim, f.Met = "≥ "+short(aim), &met
	return f
}

func short(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// verdict returns "yes" or "no" for a figure with a target, and "" otherwise.
func (f Figure) verdict() string {
	switch {
	case f.Met == nil:
		return ""
	case *f.Met:
		return "yes"
	}
	return "no"
}

// Report holds all figures and describes the machine they were measured on.
type Report struct {
	Began    time.Time         `json:"began"`
	Seconds  float64           `json:"seconds"`
	Machine  map[string]string `json:"machine"`
	Engine   map[string]string `json:"engine"`
	Versions map[string]string `json:"versions"`
	Sizes    sizes             `json:"sizes"`
	Figures  []Figure          `json:"figures"`
}

func newReport(b *bench) *Report {
	r := &Report{
		Began: time.Now().UTC(), Machine: machine(), Engine: b.backend.Describe(), Sizes: b.sizes,
		Versions: map[string]string{"go": runtime.Version(), "waza": wazaVersion(b.waza)},
	}
	if b.compose != nil {
		r.Versions["docker-compose"] = b.compose.version
	}
	if b.runtime != "" {
		r.Engine["runtime"] = b.runtime
	}
	return r
}

func wazaVersion(path string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "version").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "waza ")
}

// machine describes this machine. Its load is that before the benchmark.
func machine() map[string]string {
	m := map[string]string{"cpus": strconv.Itoa(runtime.NumCPU()), "arch": runtime.GOARCH}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m["load_before"], _, _ = strings.Cut(string(load), " ")
	}
	if cpus, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m["cpu"] = valueOf(cpus, "model name")
	}
	if memory, err := os.ReadFile("/proc/meminfo"); err == nil {
		m["memory"] = valueOf(memory, "MemTotal")
	}
	return m
}

// valueOf returns the first value of a key in a file such as /proc/cpuinfo.
func valueOf(file []byte, key string) string {
	for lines := bufio.NewScanner(bytes.NewReader(file)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (r *Report) add(figures ...Figure) {
	r.Figures = append(r.Figures, figures...)
	r.Seconds = seconds(time.Since(r.Began))
}

// write writes the report to path as JSON, if path is not empty.
func (r *Report) write(path string) error {
	if path == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// String returns the report as Markdown.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s × %s, load %s before; Docker %s, kernel %s; waza %s, Go %s; %.0f s\n\n",
		r.Began.Format(time.DateOnly), r.Machine["cpus"], r.Machine["cpu"], r.Machine["load_before"],
		r.Engine["version"], r.Engine["kernel"], r.Versions["waza"], strings.TrimPrefix(r.Versions["go"], "go"), r.Seconds)
	b.WriteString("| figure | value | aim | met | what |\n|---|---|---|---|---|\n")
	for _, f := range r.Figures {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.Name, readable(f.Value), f.Aim, f.verdict(), f.What)
	}
	for _, f := range r.Figures {
		for _, note := range f.Notes {
			fmt.Fprintf(&b, "\n%s: %s", f.Name, note)
		}
	}
	b.WriteString("\n")
	return b.String()
}

func readable(x float64) string {
	if x >= 100 || x == float64(int(x)) {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// complaint returns an error if objects were left behind: this is a bug rather than a
// missed target.
func (r *Report) complaint() error {
	for _, f := range r.Figures {
		if f.Name == "left_behind" && f.Value > 0 {
			return errors.New("left on the engine: " + strings.Join(f.Notes, ", "))
		}
	}
	return nil
}
