package local

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

const straysMissing = "a program that its agent or server starts at once may outlive the trial"

// ownSession shields a program from interrupts of our console.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// group is the job object of a program and its children. The job ends when its handle is closed,
// and so with the runner. It is 0 if there is none.
type group windows.Handle

// groupOf puts a program that was just started into a job.
func groupOf(leader *os.Process) group {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err == nil {
		assigned := errors.ErrUnsupported
		_ = leader.WithHandle(func(handle uintptr) {
			assigned = windows.AssignProcessToJobObject(job, windows.Handle(handle))
		})
		err = assigned
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return 0
	}
	return group(job)
}

// signal ends the programs of the job, since this system has no signals.
func (g group) signal(syscall.Signal) error {
	if g == 0 {
		return nil
	}
	return windows.TerminateJobObject(windows.Handle(g), 1)
}

// end ends the programs of the job, and releases the job. It must be called once.
func (g group) end() {
	_ = g.signal(syscall.SIGKILL)
	if g != 0 {
		_ = windows.CloseHandle(windows.Handle(g))
	}
}

// read always fails: pipes have no deadlines here, and end with the job.
func read(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

// awaitEnd always fails: this system does not reap processes.
func awaitEnd(int) bool { return false }

func signalName(s syscall.Signal) string { return s.String() }

// mayChange and unmountBelow do nothing: they undo what only root can do on Linux.
func mayChange(*os.Root, string) {}
func unmountBelow(string)        {}

// killMarked does nothing: jobs end with their runner.
func killMarked(string) int { return 0 }
