package guests

import "fmt"

// MaxContainers is how many containers a run has users for at once.
const MaxContainers = 512

// Pool hands out names. A name is reused only after all others, because the kernel may still
// account resources to the user of a container that has just ended.
type Pool chan string

// NewPool returns a pool with as many names as a run can have concurrent containers.
func NewPool(name func(n int) string) Pool {
	p := make(Pool, MaxContainers)
	for n := range MaxContainers {
		p <- name(n)
	}
	return p
}

// NewUserPool returns a pool of users, each with a group of the same number, from first.
func NewUserPool(first int) Pool {
	return NewPool(func(n int) string { return UserNumber(first + n) })
}

// UserNumber returns "n:n", the user and group with the id n.
func UserNumber(n int) string { return fmt.Sprintf("%d:%d", n, n) }

// Get returns a free name, or "" if all are in use.
func (p Pool) Get() string {
	select {
	case name := <-p:
		return name
	default:
		return ""
	}
}

// Put returns a name to the pool, unless it is empty.
func (p Pool) Put(name string) {
	if name == "" {
		return
	}
	select {
	case p <- name:
	default: // it is not of the pool, which is full
	}
}
