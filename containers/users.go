package containers

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/waza-isolate/waza/internal/tree"

	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// userKey is a user as an image or an eval names them.
type userKey struct{ image, user string }

// maxPasswd is how much of an image's /etc/passwd and /etc/group is read.
const maxPasswd = 1 << 20

// namedUsers finds the numbers of the users of t's containers that are given by name.
// Directories that the engine makes for them are owned by number.
func (b *Backend) namedUsers(ctx context.Context, t *plan.Trial, images map[string]imageInfo) (map[userKey]string, error) {
	containers := []sandbox.Container{t.Agent.Container}
	for _, server := range t.Servers {
		containers = append(containers, server.Container)
		for _, service := range server.Services {
			containers = append(containers, service.Container)
		}
	}
	numbers := map[userKey]string{}
	for _, ctr := range containers {
		image := images[ctr.Image]
		user := cmp.Or(ctr.User, image.user)
		if isRoot(user) || isNumeric(user) {
			continue
		}
		found, err := b.numbersOf(ctx, userKey{image.id, user})
		if err != nil {
			return nil, fmt.Errorf("image %q: %w; give the user by number", ctr.Image, err)
		}
		numbers[userKey{image.id, user}] = found
	}
	return numbers, nil
}

func isNumeric(user string) bool {
	return !strings.ContainsFunc(user, func(r rune) bool { return r != ':' && (r < '0' || r > '9') })
}

// numbersOf is "uid:gid" of a user, read once for each image from its files.
func (b *Backend) numbersOf(ctx context.Context, key userKey) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if found, ok := b.userIDs[key]; ok {
		return found, nil
	}
	var passwd, group string
	err := b.withImage(ctx, key.image, nil, func(id string) (err error) {
		passwd, group, err = b.engine.accounts(ctx, id)
		return err
	})
	if err != nil {
		return "", err
	}
	found, err := lookUp(key.user, passwd, group)
	if err != nil {
		return "", err
	}
	b.userIDs[key] = found
	return found, nil
}

// accounts reads a container's passwd and group, which are empty where it has none.
func (e *engine) accounts(ctx context.Context, id string) (passwd, group string, err error) {
	if passwd, err = e.readFile(ctx, id, "/etc/passwd"); err != nil {
		return "", "", err
	}
	group, err = e.readFile(ctx, id, "/etc/group")
	return passwd, group, err
}

// readFile reads a small file of a container, wherever its name leads to. What is no
// file is empty.
func (e *engine) readFile(ctx context.Context, id, path string) (string, error) {
	stat, err := e.ContainerStatPath(ctx, id, path)
	if errdefs.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	archive, _, err := e.CopyFromContainer(ctx, id, cmp.Or(stat.LinkTarget, path))
	if errdefs.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = archive.Close() }()
	file, err := tree.First(archive)
	if err != nil || file.Kind() != tree.File {
		return "", err
	}
	content, err := io.ReadAll(io.LimitReader(file.Content, maxPasswd))
	return string(content), err
}

// lookUp turns user[:group] into numbers (passwd(5), group(5)). Without a group it
// is the user's own.
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
	// They become part of mount options, and the files are the image's.
	if !isDigits(uid) || !isDigits(gid) {
		return "", fmt.Errorf("user %q has no numbers in /etc/passwd or /etc/group", user)
	}
	return uid + ":" + gid, nil
}

func isDigits(s string) bool { return s != "" && !strings.Contains(s, ":") && isNumeric(s) }

// account is the line of passwd or group that begins with name and has at least n
// fields.
func account(file, name string, n int) ([]string, bool) {
	for lines := bufio.NewScanner(strings.NewReader(file)); lines.Scan(); {
		if fields := strings.Split(lines.Text(), ":"); len(fields) >= n && fields[0] == name {
			return fields, true
		}
	}
	return nil, false
}
