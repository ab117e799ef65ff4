package part

// Limits of hostile programs, and the amounts that they try to take. All are small, so that
// nothing breaks if a limit is missing.
const (
	Memory = 256 << 20 // memory of a container, in bytes
	Disk   = 16 << 20  // size of each writable directory, in bytes
	Shm    = 8 << 20   // size of /dev/shm, in bytes; not the default
	Files  = Disk>>10 + 16<<10
	Pids   = 256
	Open   = 4096 // open files of a process

	AgentOutput  = 8 << 20  // recorded output of the agent per stream, in bytes
	ServerStderr = 16 << 20 // recorded stderr of a server, in bytes
)

// Names in the workspace.
const (
	HostLink = "passwd"
	OwnLink  = "own"
	HardLink = "hard"
	CwdLink  = "expected"
	Setuid   = "setuid"
	Planted  = "planted"
)

// Arguments with which a hostile program starts itself.
const (
	Forks   = "forks"
	Threads = "threads"
	Mapped  = "mapped"
	Segment = "segment"
	Lingers = "lingers"
	Finds   = "grader-finds"
)

// Sayings returns, by attack, texts that a terminal or a CI system would act on. Each
// contains its mark, which is found unchanged in an output only if nothing was removed.
func Sayings() map[string]string {
	return map[string]string{
		"terminal-title":     "\x1b]0;title-mark\a",
		"terminal-clipboard": "\x1b]52;c;Y2xpcA==\x1b\\",
		"terminal-link":      "\x1b]8;;http://link-mark.invalid\x1b\\",
		"terminal-cursor":    "\x1b[2J\x1b[1;1Hcursor-mark",
		"terminal-c1":        "\u009b31mc1-mark",
		"terminal-overwrite": "said\rover-mark\b\b",
		"terminal-order":     "\u202ebidi-mark\u2066",
		"ci-command":         "\n::error::ci-mark\n",
		"ci-indented":        "\n    ::add-mask::mask-mark\n",
		"ci-anywhere":        "see ##vso[task.setvariable variable=a]vso-mark ##[error]",
		"forged-line":        "\nforged-mark/1 passed: all is well\nrun directory: /forged-mark\n",
	}
}
