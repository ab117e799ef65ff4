package observe

import (
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// ReadUsage reads a container's own control groups from root, its /sys/fs/cgroup. Values that are
// missing or malformed are nil.
func ReadUsage(root fs.FS) Usage {
	g := group{root}
	if _, err := fs.Stat(root, "cgroup.controllers"); err == nil {
		return g.version2()
	}
	return g.version1()
}

// group is a directory of control group files; see the kernel's documentation,
// admin-guide/cgroup-v1 and admin-guide/cgroup-v2.
type group struct{ root fs.FS }

func (g group) version1() Usage {
	return Usage{
		Memory:       g.level("memory/memory.usage_in_bytes", "memory/memory.max_usage_in_bytes"),
		OOMKills:     g.keyed("memory/memory.oom_control", "oom_kill"),
		Pids:         g.pids("pids/"),
		ForksRefused: g.keyed("pids/pids.events", "max"),
		CPU:          inSeconds(g.number("cpuacct/cpuacct.usage"), time.Nanosecond),
		Throttled:    inSeconds(g.keyed("cpu/cpu.stat", "throttled_time"), time.Nanosecond),
	}
}

func (g group) version2() Usage {
	return Usage{
		Memory:       g.level("memory.current", "memory.peak"),
		OOMKills:     g.keyed("memory.events", "oom_kill"),
		Pids:         g.pids(""),
		ForksRefused: g.keyed("pids.events", "max"),
		CPU:          inSeconds(g.keyed("cpu.stat", "usage_usec"), time.Microsecond),
		Throttled:    inSeconds(g.keyed("cpu.stat", "throttled_usec"), time.Microsecond),
	}
}

// level reads a value and its peak. If the kernel keeps no peak (Linux before 5.19 for memory and
// before 6.6 for pids), the current value stands in for it.
func (g group) level(now, peak string) *Level {
	current, highest := g.number(now), g.number(peak)
	switch {
	case current == nil:
		return nil
	case highest == nil:
		highest = current
	}
	return &Level{Peak: max(*highest, *current), Now: *current}
}

// pids reads the number of processes. If the kernel has refused one, the peak is the limit.
func (g group) pids(dir string) *Level {
	l := g.level(dir+"pids.current", dir+"pids.peak")
	refused, limit := g.keyed(dir+"pids.events", "max"), g.number(dir+"pids.max")
	if l != nil && refused != nil && *refused > 0 && limit != nil {
		l.Peak = max(l.Peak, *limit)
	}
	return l
}

func inSeconds(n *int64, unit time.Duration) *float64 {
	if n == nil {
		return nil
	}
	s := float64(*n) * unit.Seconds()
	return &s
}

// maxFile is how many bytes of a file are read; all are shorter.
const maxFile = 16 << 10

func (g group) read(name string) string {
	file, err := g.root.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return ""
	}
	return string(text)
}

// number reads a file with a single number; nil for "max".
func (g group) number(name string) *int64 { return parseNumber(g.read(name)) }

// keyed reads the number of a key in a file that has a key and a number on each line.
func (g group) keyed(name, key string) *int64 {
	for line := range strings.Lines(g.read(name)) {
		if value, ok := strings.CutPrefix(line, key+" "); ok {
			return parseNumber(value)
		}
	}
	return nil
}

func parseNumber(text string) *int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 {
		return nil
	}
	return &n
}
