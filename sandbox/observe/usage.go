package observe

import (
	"fmt"
	"maps"
	"slices"
)

// Usage is what a container used since it was made. What is nil could not be seen, which
// is not the same as none.
type Usage struct {
	Memory       *Level          `json:"memory,omitempty"` // bytes; files in tmpfs count
	Pids         *Level          `json:"pids,omitempty"`   // processes and threads
	CPU          *float64        `json:"cpu_seconds,omitempty"`
	Throttled    *float64        `json:"throttled_seconds,omitempty"` // it had to wait for CPU
	OOMKills     *int64          `json:"oom_kills,omitempty"`         // programs that the kernel ended for want of memory
	ForksRefused *int64          `json:"forks_refused,omitempty"`     // for want of pids
	Disks        map[string]Disk `json:"disks,omitempty"`             // by directory
}

// Level is something that rises and falls.
type Level struct {
	Peak int64 `json:"peak"`
	Now  int64 `json:"now"`
}

// Disk is a writable directory of limited size. Peak and Full are what was seen at
// the times when somebody looked.
type Disk struct {
	Peak int64 `json:"peak"` // bytes used
	Size int64 `json:"size"`
	Full bool  `json:"full,omitempty"` // it had no room left for a byte, or for a file
}

// With returns u as it goes on: levels and counts as in later, where that knows them,
// peaks the higher of both.
func (u Usage) With(later Usage) Usage {
	merged := Usage{
		Memory: higher(u.Memory, later.Memory), Pids: higher(u.Pids, later.Pids),
		CPU: latest(later.CPU, u.CPU), Throttled: latest(later.Throttled, u.Throttled),
		OOMKills: latest(later.OOMKills, u.OOMKills), ForksRefused: latest(later.ForksRefused, u.ForksRefused),
		Disks: maps.Clone(u.Disks),
	}
	for dir, disk := range later.Disks {
		if merged.Disks == nil {
			merged.Disks = map[string]Disk{}
		}
		before := merged.Disks[dir]
		merged.Disks[dir] = Disk{Peak: max(before.Peak, disk.Peak), Size: disk.Size, Full: before.Full || disk.Full}
	}
	return merged
}

func latest[T any](later, before *T) *T {
	if later != nil {
		return later
	}
	return before
}

func higher(before, later *Level) *Level {
	if before == nil || later == nil {
		return latest(later, before)
	}
	return &Level{Peak: max(before.Peak, later.Peak, later.Now), Now: later.Now}
}

// Only returns u without directories that are not among dirs.
func (u Usage) Only(dirs []string) Usage {
	u.Disks = maps.Clone(u.Disks)
	maps.DeleteFunc(u.Disks, func(dir string, _ Disk) bool { return !slices.Contains(dirs, dir) })
	return u
}

// What a container can run into. Events and reasons are called so.
const (
	OOM  = "oom"
	Pids = "pids"
	Full = "disk"
)

// Breach is a limit that a container ran into.
type Breach struct {
	Kind string // OOM, Pids or Full
	What string // what happened, as a sentence goes on that names the container
}

// Breaches returns the limits that a container ran into.
func (u Usage) Breaches() []Breach {
	var all []Breach
	if u.OOMKills != nil && *u.OOMKills > 0 {
		all = append(all, Breach{OOM, fmt.Sprintf("ran out of memory: the kernel ended %d program(s)", *u.OOMKills)})
	}
	if u.ForksRefused != nil && *u.ForksRefused > 0 {
		all = append(all, Breach{Pids, fmt.Sprintf("ran out of processes: it was refused %d", *u.ForksRefused)})
	}
	for _, dir := range slices.Sorted(maps.Keys(u.Disks)) {
		if disk := u.Disks[dir]; disk.Full {
			all = append(all, Breach{Full, fmt.Sprintf("filled %s, which holds %d bytes", dir, disk.Size)})
		}
	}
	return all
}
