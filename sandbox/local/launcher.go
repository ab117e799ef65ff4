package local

import (
	"os"
	"runtime"
	"sync"
)

// launcher starts programs, all from one thread of the system that lasts as long
// as the run. Linux ends a child with the thread that made it (prctl(2),
// PR_SET_PDEATHSIG), and other threads of ours come and go.
type launcher struct {
	work  chan func()
	ended sync.WaitGroup
}

func newLauncher() *launcher {
	l := &launcher{work: make(chan func())}
	l.ended.Go(func() {
		runtime.LockOSThread()
		for start := range l.work {
			start()
		}
		runtime.UnlockOSThread()
	})
	return l
}

func (l *launcher) start(path string, args []string, attr *os.ProcAttr) (p *os.Process, err error) {
	done := make(chan struct{})
	l.work <- func() {
		defer close(done)
		p, err = os.StartProcess(path, args, attr)
	}
	<-done
	return p, err
}

// close waits for the thread. Nothing is started any more.
func (l *launcher) close() {
	close(l.work)
	l.ended.Wait()
}
