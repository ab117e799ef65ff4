package containers

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/system"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
)

// The kernel accounts some resources by user and not by cgroup: inotify watches, file
// descriptors in flight, timers, message queues, pipe pages. So every container runs as a user
// id that no other container of the engine has. Each run has its own block of ids.
const (
	runsAtOnce = 64

	// highUsers is above the ids that systems assign to people, services and user namespaces.
	highUsers = 1 << 30
	// mappedUsers is within the 65,536 ids that a user namespace usually has.
	mappedUsers = 30_000
)

// userRange is the range of an engine's blocks of user ids.
type userRange struct{ first int }

// userRangeOf returns the user ids that containers of an engine may have.
func userRangeOf(info system.Info) userRange {
	if has(info, "userns") || has(info, "rootless") {
		return userRange{mappedUsers}
	}
	return userRange{highUsers}
}

// lease returns the user of every run's lease, which runs nothing foreign.
func (r userRange) lease() string { return guests.UserNumber(r.first - 1) }

// passwd returns an image's /etc/passwd with all users of the range, so that programs can
// look up their user. All have the same name, so that programs' output does not differ between
// runs.
func (r userRange) passwd(image string) string {
	return r.accounts(image, func(n string) string { return "waza:x:" + n + ":" + n + "::" + sandbox.HomeDir + ":/bin/sh\n" })
}

// group returns an image's /etc/group with all groups of the range.
func (r userRange) group(image string) string {
	return r.accounts(image, func(n string) string { return "waza:x:" + n + ":\n" })
}

func (r userRange) accounts(image string, line func(number string) string) string {
	var b strings.Builder
	b.WriteString(image)
	if image != "" && !strings.HasSuffix(image, "\n") {
		b.WriteByte('\n')
	}
	for n := range runsAtOnce * guests.MaxContainers {
		b.WriteString(line(strconv.Itoa(r.first + n)))
	}
	return b.String()
}

var (
	// errUsersTaken means that there are more live runs than blocks.
	errUsersTaken = fmt.Errorf("%d runs on this engine have all numbers of users; try again when one of them has ended, or run waza gc", runsAtOnce)
	// errTooManyContainers means that a run needs more concurrent containers than its block has
	// ids.
	errTooManyContainers = errors.New("a run has at most " + strconv.Itoa(guests.MaxContainers) + " containers at once; lower --workers")
)

// takeUsers takes a block of user ids for a run. A block is taken by creating a volume with its
// name: the engine creates a volume only once, and its labels name the run.
func takeUsers(ctx context.Context, e *engine, run string) (guests.Pool, error) {
	first := userRangeOf(e.info).first
	begin := rand.IntN(runsAtOnce)
	for n := range runsAtOnce {
		block := (begin + n) % runsAtOnce
		made, err := e.createVolume(ctx, "waza-users-"+strconv.Itoa(block), labels(run, wholeRun, roleUsers))
		if err != nil {
			return nil, fmt.Errorf("numbers of users: %w", err)
		}
		if made.Labels[labelRun] == run {
			return guests.NewUserPool(first + block*guests.MaxContainers), nil
		}
	}
	return nil, errUsersTaken
}

// userKey is a user as named by an image or an eval.
type userKey struct{ image, user string }

// addUsers adds to images the ids of containers' users that are given by name. Directories that
// the engine creates for them need numeric owners.
func (s *imageStore) addUsers(ctx context.Context, of []sandbox.ContainerSpec, images map[string]imageInfo) error {
	for _, ctr := range of {
		image := images[ctr.Image]
		user := cmp.Or(ctr.User, image.User)
		if guests.IsRoot(user) || isNumeric(user) {
			continue
		}
		found, err := s.numbersOf(ctx, userKey{image.ID, user})
		if err != nil {
			return fmt.Errorf("image %q: %w; give the user by number", ctr.Image, err)
		}
		if image.Users == nil {
			image.Users = map[string]string{}
		}
		image.Users[user] = found
		images[ctr.Image] = image
	}
	return nil
}

func isNumeric(user string) bool {
	return !strings.ContainsFunc(user, func(r rune) bool { return r != ':' && (r < '0' || r > '9') })
}

// numbersOf returns "uid:gid" of a user, from the image's files. Results are cached.
func (s *imageStore) numbersOf(ctx context.Context, key userKey) (found string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := s.userIDs[key]; ok {
		return found, nil
	}
	err = s.engine.withImage(ctx, s.run, key.image, nil, func(id string) error {
		passwd, group, err := readAccounts(ctx, s.engine, id)
		if err == nil {
			found, err = lookUp(key.user, passwd, group)
		}
		return err
	})
	if err == nil {
		s.userIDs[key] = found
	}
	return found, err
}

// maxPasswd is how many bytes of an image's /etc/passwd and /etc/group are read.
const maxPasswd = 1 << 20

// readAccounts returns a container's /etc/passwd and /etc/group; empty if missing.
func readAccounts(ctx context.Context, e *engine, id string) (passwd, group string, err error) {
	for path, into := range map[string]*string{"/etc/passwd": &passwd, "/etc/group": &group} {
		content, err := e.readFile(ctx, id, path, maxPasswd)
		if err != nil && !errdefs.IsNotFound(err) && !errors.Is(err, errNoFile) {
			return "", "", err
		}
		*into = string(content)
	}
	return passwd, group, nil
}

// lookUp converts user[:group] to ids (passwd(5), group(5)). The default group is the user's
// own.
func lookUp(user, passwd, group string) (string, error) {
	name, groupName, hasGroup := strings.Cut(user, ":")
	uid, gid := name, name
	if _, err := strconv.Atoi(name); err != nil {
		fields, found := account(passwd, name, 4)
		if !found {
			return "", fmt.Errorf("no user %q", name)
		}
		uid, gid = fields[2], fields[3]
	}
	if hasGroup {
		gid = groupName
	}
	if _, err := strconv.Atoi(gid); err != nil && hasGroup {
		fields, found := account(group, groupName, 3)
		if !found {
			return "", fmt.Errorf("no group %q", groupName)
		}
		gid = fields[2]
	}
	// They become part of mount options, and the files are not trusted.
	if !isDigits(uid) || !isDigits(gid) {
		return "", fmt.Errorf("user %q has no numbers in /etc/passwd or /etc/group", user)
	}
	return uid + ":" + gid, nil
}

func isDigits(s string) bool { return s != "" && !strings.Contains(s, ":") && isNumeric(s) }

// account returns the fields of the line of passwd or group for name, if it has at least n
// fields.
func account(file, name string, n int) ([]string, bool) {
	for lines := bufio.NewScanner(strings.NewReader(file)); lines.Scan(); {
		if fields := strings.Split(lines.Text(), ":"); len(fields) >= n && fields[0] == name {
			return fields, true
		}
	}
	return nil, false
}
