package containers

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/system"

	"github.com/waza-isolate/waza/sandbox"
)

// healthy is an engine that lacks nothing.
func healthy() facts {
	return facts{
		info: system.Info{
			CgroupVersion: "2", MemoryLimit: true, SwapLimit: true, CPUCfsQuota: true, PidsLimit: true, SecurityOptions: []string{"name=seccomp,profile=default"},
			Driver: "overlay2", MemTotal: 8 << 30, Plugins: system.PluginsInfo{Network: []string{"bridge"}},
		},
		free: 8000, subnets: 8192, room: 100 << 30, own: "waza-guest:a",
	}
}

func TestAssess(t *testing.T) {
	if all := assess(healthy()); all.Worst() != sandbox.CheckOK {
		t.Errorf("a healthy engine: %+v", all)
	}
	tests := []struct {
		name   string
		change func(*facts)
		check  string
		status sandbox.CheckStatus
		says   string
	}{
		{"no swap limit", func(f *facts) { f.info.SwapLimit = false }, "limits", sandbox.CheckWarning, "not enforced: the swap"},
		{"cgroup v1", func(f *facts) { f.info.CgroupVersion = "1" }, "limits", sandbox.CheckWarning, "the memory of TCP connections"},
		{"no seccomp", func(f *facts) { f.info.SecurityOptions = nil }, "seccomp", sandbox.CheckProblem, "could reach the host"},
		{"rootless", func(f *facts) { f.info.SecurityOptions = append(f.info.SecurityOptions, "name=rootless") }, "security", sandbox.CheckOK, "rootless"},
		{"vfs", func(f *facts) { f.info.Driver = "vfs" }, "storage", sandbox.CheckWarning, "vfs"},
		{"little room", func(f *facts) { f.room = 3 << 30 }, "storage", sandbox.CheckWarning, "3.0 GiB"},
		{"no room", func(f *facts) { f.room = 0 }, "storage", sandbox.CheckProblem, "0 MiB"},
		{"room not known", func(f *facts) { f.room = -1 }, "storage", sandbox.CheckOK, "not known"},
		{"no bridge", func(f *facts) { f.info.Plugins.Network = nil }, "networks", sandbox.CheckProblem, "no bridge"},
		{"few subnets", func(f *facts) { f.free = 3 }, "networks", sandbox.CheckWarning, "3 of 8192"},
		{"no subnet", func(f *facts) { f.free = 0 }, "networks", sandbox.CheckProblem, "0 of 8192"},
		{"a clock behind", func(f *facts) { f.skew = -time.Minute }, "clock", sandbox.CheckWarning, "1m0s behind"},
		{"a slow answer", func(f *facts) { f.skew, f.answered = 6*time.Second, 9*time.Second }, "clock", sandbox.CheckOK, "agrees"},
		{"little memory", func(f *facts) { f.info.MemTotal = 1 << 30 }, "memory", sandbox.CheckWarning, "1.0 GiB"},
		{"a dynamic executable", func(f *facts) { f.guest = "is linked dynamically" }, "guest", sandbox.CheckProblem, "dynamically"},
		{"old guests", func(f *facts) { f.guests = make([]image.Summary, 4) }, "old guests", sandbox.CheckWarning, "4 guest images"},
		{"dead runs", func(f *facts) { f.dead, f.objects, f.live = 1, 7, 2 }, "runs", sandbox.CheckWarning, "2 live; 1 dead left 7 objects"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := healthy()
			test.change(&f)
			all := assess(f)
			for _, check := range all {
				if (check.Fix == "") != (check.Status == sandbox.CheckOK) {
					t.Errorf("%s is %s and its mend %q", check.Name, check.Status, check.Fix)
				}
				if check.Name == test.check && (check.Status != test.status || !strings.Contains(check.Message, test.says)) {
					t.Errorf("%+v, want %s that says %q", check, test.status, test.says)
				}
			}
			if all.Worst() != test.status {
				t.Errorf("the worst is %s, want %s", all.Worst(), test.status)
			}
		})
	}
}

func TestFreeSubnets(t *testing.T) {
	from := netip.MustParsePrefix("10.9.0.0/24")
	for used, want := range map[string]int{"10.8.0.0/16": 32, "10.9.0.8/29": 31, "10.9.0.128/25": 16, "10.0.0.0/8": 0} {
		if free, all := freeSubnets(from, []netip.Prefix{netip.MustParsePrefix(used)}); free != want || all != 32 {
			t.Errorf("%s leaves %d of %d, want %d of 32", used, free, all, want)
		}
	}
}

func TestOldGuests(t *testing.T) {
	now := time.Now()
	at := func(age time.Duration, refs ...string) image.Summary {
		return image.Summary{Created: now.Add(-age).Unix(), RepoTags: refs}
	}
	got := oldGuests([]image.Summary{
		at(25*time.Hour, "waza-guest:old", "somebody/else:1"), at(25*time.Hour, "waza-guest:own"), at(time.Hour, "waza-guest:young"), at(48*time.Hour, "waza-guest-not:1"),
	}, "waza-guest:own", now)
	if len(got) != 1 || got[0] != "waza-guest:old" {
		t.Errorf("gc removes %v", got)
	}
}

// TestUserMaps has the options of security that engines report, and what guarantees say of users.
func TestUserMaps(t *testing.T) {
	for _, test := range []struct{ options, want string }{
		{"name=seccomp,profile=builtin name=cgroupns", ""},
		{"name=apparmor name=selinux name=seccomp,profile=builtin", ""},
		{"name=seccomp,profile=builtin name=rootless name=cgroupns", "the engine and root in its containers have no rights of root on its host"},
		{"name=userns", "users of containers, root included, are other users on the engine's host"},
		{"name=usernsx xname=rootless", ""},
		{"", ""},
	} {
		e := &engine{info: system.Info{SecurityOptions: strings.Fields(test.options)}}
		enforced, missing := e.userMaps()
		if got := strings.Join(enforced, "; "); got != test.want || (len(missing) > 0) != (got != "") {
			t.Errorf("%q: %q and not %q, want %q", test.options, got, missing, test.want)
		}
	}
}
