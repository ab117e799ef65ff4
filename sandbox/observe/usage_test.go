package observe

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func tree(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, content := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return fsys
}

func of[T any](v T) *T { return &v }

func TestReadUsage(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  Usage
	}{
		{"version 1", map[string]string{
			"memory/memory.usage_in_bytes":     "7340032\n",
			"memory/memory.max_usage_in_bytes": "134217728\n",
			"memory/memory.failcnt":            "881\n",
			"memory/memory.oom_control":        "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
			"pids/pids.current":                "9\n",
			"pids/pids.max":                    "64\n",
			"pids/pids.events":                 "max 36\n",
			"cpuacct/cpuacct.usage":            "1500000000\n",
			"cpu/cpu.stat":                     "nr_periods 40\nnr_throttled 3\nthrottled_time 250000000\n",
		}, Usage{
			Memory: &Level{Peak: 134217728, Now: 7340032}, OOMKills: of(int64(2)),
			Pids: &Level{Peak: 64, Now: 9}, ForksRefused: of(int64(36)), CPU: of(1.5), Throttled: of(0.25),
		}},
		{"version 2", map[string]string{
			"cgroup.controllers": "cpuset cpu io memory pids\n",
			"memory.current":     "4096\n",
			"memory.peak":        "8192\n",
			"memory.events":      "low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 0\n",
			"pids.current":       "3\n",
			"pids.peak":          "5\n",
			"pids.max":           "max\n",
			"pids.events":        "max 0\n",
			"cpu.stat":           "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
		}, Usage{
			Memory: &Level{Peak: 8192, Now: 4096}, OOMKills: of(int64(1)),
			Pids: &Level{Peak: 5, Now: 3}, ForksRefused: of(int64(0)), CPU: of(2.5), Throttled: of(0.0),
		}},
		{"version 2 without peaks", map[string]string{
			"cgroup.controllers": "memory pids\n",
			"memory.current":     "4096\n",
			"memory.events":      "low 0\noom 0\noom_kill 0\n",
			"pids.current":       "3\n",
			"pids.max":           "20\n",
			"pids.events":        "max 7\n",
		}, Usage{
			Memory: &Level{Peak: 4096, Now: 4096}, OOMKills: of(int64(0)),
			Pids: &Level{Peak: 20, Now: 3}, ForksRefused: of(int64(7)),
		}},
		{"nothing", nil, Usage{}},
		{"not as the kernel writes it", map[string]string{
			"memory/memory.usage_in_bytes": "much\n", "memory/memory.max_usage_in_bytes": "5\n",
			"memory/memory.oom_control": "oom_kill many\n", "pids/pids.current": "-1\n", "pids/pids.events": "maximum 3\n",
		}, Usage{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, ReadUsage(tree(test.files))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWith(t *testing.T) {
	before := Usage{
		Memory: &Level{Peak: 10, Now: 10}, OOMKills: of(int64(1)), CPU: of(1.0),
		Disks: map[string]Disk{"/tmp": {Peak: 8, Size: 8, Full: true}},
	}
	later := Usage{
		Memory: &Level{Peak: 4, Now: 4}, Pids: &Level{Peak: 2, Now: 1}, CPU: of(2.0),
		Disks: map[string]Disk{"/tmp": {Peak: 1, Size: 8}, "/workspace": {Peak: 3, Size: 9}},
	}
	want := Usage{
		Memory: &Level{Peak: 10, Now: 4}, Pids: &Level{Peak: 2, Now: 1}, OOMKills: of(int64(1)), CPU: of(2.0),
		Disks: map[string]Disk{"/tmp": {Peak: 8, Size: 8, Full: true}, "/workspace": {Peak: 3, Size: 9}},
	}
	if diff := cmp.Diff(want, before.With(later)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(before.Disks) != 1 {
		t.Error("what was before has changed")
	}
	if diff := cmp.Diff(later, Usage{}.With(later)); diff != "" {
		t.Errorf("with nothing before it (-want +got):\n%s", diff)
	}
}

func TestBreaches(t *testing.T) {
	none := Usage{OOMKills: of(int64(0)), ForksRefused: of(int64(0)), Disks: map[string]Disk{"/tmp": {Peak: 8, Size: 8}}}
	for _, u := range []Usage{{}, none} {
		if got := u.Breaches(); len(got) > 0 {
			t.Errorf("breaches %+v", got)
		}
	}
	all := Usage{OOMKills: of(int64(2)), ForksRefused: of(int64(3)), Disks: map[string]Disk{"/tmp": {Size: 8, Full: true}, "/a": {Full: true}, "/made-up": {Full: true}}}
	var kinds []string
	for _, b := range all.Only([]string{"/tmp", "/a"}).Breaches() {
		kinds = append(kinds, b.Kind)
	}
	if diff := cmp.Diff([]string{OOM, Pids, Full, Full}, kinds); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzReadUsage(f *testing.F) {
	f.Add("oom_kill 2\n", "7\n", true)
	f.Add("max 2\noom_kill 9223372036854775807", "max", false)
	f.Fuzz(func(t *testing.T, keyed, number string, second bool) {
		files := map[string]string{
			"memory/memory.usage_in_bytes": number, "memory/memory.oom_control": keyed, "pids/pids.events": keyed,
			"pids/pids.current": number, "pids/pids.max": number, "cpuacct/cpuacct.usage": number, "cpu/cpu.stat": keyed,
			"memory.current": number, "memory.events": keyed, "pids.events": keyed, "pids.current": number, "cpu.stat": keyed,
		}
		if second {
			files["cgroup.controllers"] = ""
		}
		u := ReadUsage(tree(files))
		for _, l := range []*Level{u.Memory, u.Pids} {
			if l != nil && (l.Now < 0 || l.Peak < l.Now) {
				t.Errorf("level %+v", *l)
			}
		}
		for _, n := range []*int64{u.OOMKills, u.ForksRefused} {
			if n != nil && *n < 0 {
				t.Errorf("count %d", *n)
			}
		}
	})
}
