package observe

import (
	"fmt"
	"maps"
	"slices"
)

// Usage is what a container has used since it was created. A nil value is not known.
type Usage struct {
	Memory       *Level          `json:"memory,omitempty"` // bytes, including files in tmpfs
	Pids         *Level          `json:"pids,omitempty"`   // processes and threads
	CPU          *float64        `json:"cpu_seconds,omitempty"`
	Throttled    *float64        `json:"throttled_seconds,omitempty"` // time waiting for CPU because of the limit
	OOMKills     *int64          `json:"oom_kills,omitempty"`         // processes killed because of memory
	ForksRefused *int64          `json:"forks_refused,omitempty"`     // failed forks because of the pids limit
	Disks        map[string]Disk `json:"disks,omitempty"`             // by directory
}

// Level is a current value with its peak.
type Level struct {
	Peak int64 `json:"peak"`
	Now  int64 `json:"now"`
}

// Disk is a writable directory with a size limit. Peak and Full are only sampled.
type Disk struct {
	Peak int64 `json:"peak"` // bytes used
	Size int64 `json:"size"`
	Full bool  `json:"full,omitempty"` // it had no space for more data or files
}

// With returns u updated with later: its values where they are known, and the higher peaks.
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

// Only returns u without disks that are not in dirs.
func (u Usage) Only(dirs []string) Usage {
	u.Disks = maps.Clone(u.Disks)
	maps.DeleteFunc(u.Disks, func(dir string, _ Disk) bool { return !slices.Contains(dirs, dir) })
	return u
}

// Kinds of breaches, which are also used for events and reasons.
const (
	OOM  = "oom"
	Pids = "pids"
	Full = "disk"
)

// Breach is a limit that a container reached.
type Breach struct {
	Kind string `json:"kind"` // OOM, Pids or Full
	What string `json:"what"` // what happened, as a predicate whose subject is the container
}

// Breaches returns the limits that a container reached.
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
