package mcpconfig

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// UserPattern is what a container's user must match: user or uid, with :group
// or :gid. That it is not root is beyond a pattern.
const UserPattern = `^([a-z_][a-z0-9_-]{0,31}|[0-9]{1,10})(:([a-z_][a-z0-9_-]{0,31}|[0-9]{1,10}))?$`

var userPattern = regexp.MustCompile(UserPattern)

// CheckUser says what is wrong with a container's user.
func CheckUser(user string) error {
	if !userPattern.MatchString(user) {
		return errors.New("must be a user or uid, with :group or :gid where wanted, such as 1000:1000")
	}
	name, _, _ := strings.Cut(user, ":")
	if uid, err := strconv.ParseUint(name, 10, 64); name == "root" || err == nil && uid == 0 {
		return errors.New("must not be root")
	}
	return nil
}

// CheckWritable says what is wrong with a directory that is to be writable.
func CheckWritable(dir string) error {
	switch {
	case !path.IsAbs(dir) || path.Clean(dir) != dir || strings.ContainsAny(dir, ":\x00"):
		return errors.New("must be an absolute path of a directory in the container, without a colon")
	case ReservedDir(dir):
		return fmt.Errorf("cannot be %s, which an empty directory would hide; choose one of the server's own, such as /data", dir)
	}
	return nil
}

// ReservedDir says whether a directory cannot be made writable: the root, the
// kernel's, the image's system, which an empty directory would hide, and ours.
func ReservedDir(dir string) bool {
	if dir == "/" {
		return true
	}
	return slices.ContainsFunc([]string{
		"/proc", "/sys", "/dev", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt/waza",
	}, func(taken string) bool {
		return dir == taken || strings.HasPrefix(dir, taken+"/")
	})
}

// PullPolicies says when an image is pulled: where the engine does not have it,
// always, or never.
func PullPolicies() []string { return []string{PullMissing, PullAlways, PullNever} }

// The policies of [PullPolicies].
const (
	PullMissing = "missing"
	PullAlways  = "always"
	PullNever   = "never"
)

// containerFields holds what a server says of its container's user, places and
// image.
func (f *findings) containerFields(s Server) {
	if s.User != "" && !hasVariable(s.User) {
		if err := CheckUser(s.User); err != nil {
			f.invalid("user", "user %v", err)
		}
	}
	for i, dir := range s.Writable {
		if err := CheckWritable(dir); err != nil && !hasVariable(dir) {
			f.add(ErrInvalid, "writable", strconv.Itoa(i), "%s %v", where("writable", strconv.Itoa(i)), err)
		}
	}
	if s.Pull != "" && !slices.Contains(PullPolicies(), s.Pull) {
		f.invalid("pull", "pull must be missing, always or never")
	}
	if s.Platform != "" && !hasVariable(s.Platform) && strings.Count(s.Platform, "/") < 1 {
		f.invalid("platform", "platform must be of the form linux/amd64")
	}
}
