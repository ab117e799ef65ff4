package containers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/sandbox"
)

// The kernel counts by user what no control group counts: watches of files, descriptors
// on their way through sockets, timers, queues of messages, pages of pipes. So every
// container runs as a user whose number no other container of the engine has. A run
// has a block of numbers to itself.
const (
	usersOfRun = 512
	runsAtOnce = 64
)

// userRange is where an engine's blocks are.
type userRange struct{ first int }

// highUsers is above what systems give to people, services and user namespaces.
const highUsers = 1 << 30

// mappedUsers is within the 65,536 numbers that a user namespace has as a rule.
const mappedUsers = 30_000

// userRange returns the numbers that containers of the engine may have.
func (e *engine) userRange() userRange {
	if slices.ContainsFunc(e.info.SecurityOptions, func(option string) bool {
		return strings.Contains(option, "name=userns") || strings.Contains(option, "name=rootless")
	}) {
		return userRange{mappedUsers}
	}
	return userRange{highUsers}
}

// lease returns the user that every run's lease has. Nothing foreign runs there.
func (r userRange) lease() string { return numbers(r.first - 1) }

// numbers returns a user and the group of the same number.
func numbers(n int) string { return fmt.Sprintf("%d:%d", n, n) }

// passwd returns an image's /etc/passwd with every user of the range, so that programs
// find themselves. All have the same name: what programs print of it must not differ
// from run to run.
func (r userRange) passwd(image string) string {
	return r.accounts(image, func(n string) string { return "waza:x:" + n + ":" + n + "::" + sandbox.HomeDir + ":/bin/sh\n" })
}

// group returns an image's /etc/group with every group of the range.
func (r userRange) group(image string) string {
	return r.accounts(image, func(n string) string { return "waza:x:" + n + ":\n" })
}

func (r userRange) accounts(image string, line func(number string) string) string {
	var b strings.Builder
	b.WriteString(image)
	if image != "" && !strings.HasSuffix(image, "\n") {
		b.WriteByte('\n')
	}
	for n := range runsAtOnce * usersOfRun {
		b.WriteString(line(strconv.Itoa(r.first + n)))
	}
	return b.String()
}

// pool hands out names, each once around before one comes again: of a container that has
// just ended the kernel may still count something by its user.
type pool struct {
	mu   sync.Mutex
	free []string // guarded by mu
}

// newPool returns as many names as a run can have containers at once.
func newPool(name func(n int) string) *pool {
	p := &pool{}
	for n := range usersOfRun {
		p.free = append(p.free, name(n))
	}
	return p
}

// newUserPool returns the users of a run's block.
func newUserPool(first int) *pool {
	return newPool(func(n int) string { return numbers(first + n) })
}

// take hands out a name that giveBack takes again. Where all are in use it is empty.
func (p *pool) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return ""
	}
	name := p.free[0]
	p.free = p.free[1:]
	return name
}

// giveBack takes back what take handed out; nothing where that is empty.
func (p *pool) giveBack(name string) {
	if name == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, name)
}

// errUsersTaken says that more runs are alive than there are blocks.
var errUsersTaken = fmt.Errorf("%d runs on this engine have all numbers of users; try again when one of them has ended, or run waza gc", runsAtOnce)

// takeUsers takes a block of numbers for the run. A volume of its name holds it: the
// engine makes a volume of one name once, and tells whose it is.
func (b *Backend) takeUsers(ctx context.Context) (*pool, error) {
	first := b.engine.userRange().first
	begin := rand.IntN(runsAtOnce)
	for n := range runsAtOnce {
		block := (begin + n) % runsAtOnce
		made, err := b.createVolume(ctx, "waza-users-"+strconv.Itoa(block), wholeRun, roleUsers)
		if err != nil {
			return nil, fmt.Errorf("numbers of users: %w", err)
		}
		if made.Labels[labelRun] == b.run {
			return newUserPool(first + block*usersOfRun), nil
		}
	}
	return nil, errUsersTaken
}

// errTooManyBoxes says that a run has more containers at once than its block has numbers.
var errTooManyContainers = errors.New("a run has at most " + strconv.Itoa(usersOfRun) + " containers at once; lower --workers")

// userOf returns who runs in a container of an image, as "uid:gid", where the eval or the
// image insists on somebody, and who does; else all is empty. Root is nobody to insist
// on, and neither is its group where the image alone names it.
func (s scene) userOf(wanted string, i imageInfo) (user, insists string) {
	name := wanted
	insists = "the eval"
	if wanted == "" {
		name, insists = i.user, "its image"
	}
	if isRoot(name) {
		return "", ""
	}
	if found, ok := s.users[userKey{i.id, name}]; ok {
		name = found
	}
	uid, gid, named := strings.Cut(name, ":")
	if !named || gid == "0" && wanted == "" {
		gid = uid
	}
	return uid + ":" + gid, insists
}

// lacksUsers says whether a container has no user, because all are in use.
func (p trialPlan) lacksUsers() bool {
	return slices.ContainsFunc(p.containers, func(c containerPlan) bool { return c.conf.User == "" })
}

// giveBack gives back the users that the containers have from the pool.
func (p trialPlan) giveBack(to *pool) {
	for _, c := range p.containers {
		if c.insists == "" {
			to.giveBack(c.conf.User)
		}
	}
}

// usual returns who runs in a container where nobody insists on anybody.
func (s scene) usual() string {
	if !defence.OwnUsers {
		return "1000:1000"
	}
	return s.user()
}
