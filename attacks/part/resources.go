package part

// What hostile programs are allowed, and how much more they try to take. All of it is
// small: it must break nothing where a limit is missing.
const (
	Memory = 256 << 20 // bytes of a container
	Disk   = 16 << 20  // bytes of each writable directory
	Files  = Disk>>10 + 16<<10
	Pids   = 256
	Open   = 4096 // files of a process

	AgentOutput  = 8 << 20  // bytes of each output of the agent's that are kept
	ServerStderr = 16 << 20 // bytes of a server's that are kept
)

// Names in the workspace.
const (
	HostLink = "passwd"
	OwnLink  = "own"
	HardLink = "hard"
	Device   = "device"
	Setuid   = "setuid"
	Planted  = "planted"
)

// What a hostile program starts itself as.
const (
	Forks   = "forks"
	Threads = "threads"
	Mapped  = "mapped"
	Segment = "segment"
	Lingers = "lingers"
	Finds   = "grader-finds"
)

// Sayings returns texts that a terminal or a CI system would obey, by the attack: each has
// its mark in it, which stands there as it is only where nothing was taken out.
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
