package mcpconfig_test

import (
	"testing"

	"github.com/waza-isolate/waza/mcpconfig"
)

func TestReservedDir(t *testing.T) {
	for dir, want := range map[string]bool{
		"/": true, "/proc": true, "/sys/fs": true, "/dev/shm": true, "/etc": true, "/etc/waza": true, "/opt/waza": true, "/opt/waza/x": true,
		"/data": false, "/etcetera": false, "/opt/wazabi": false, "/srv/etc": false,
	} {
		if got := mcpconfig.ReservedDir(dir); got != want {
			t.Errorf("%s: %v", dir, got)
		}
	}
}

func TestCheckUser(t *testing.T) {
	for user, want := range map[string]bool{
		"app": true, "1000": true, "1000:1000": true, "app:staff": true, "_apt": true,
		"": false, "root": false, "0": false, "00": false, "root:app": false, "0:0": false, "a b": false, "a:": false, "A": false,
	} {
		if err := mcpconfig.CheckUser(user); (err == nil) != want {
			t.Errorf("%q: %v", user, err)
		}
	}
}
