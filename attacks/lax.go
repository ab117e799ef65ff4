package attacks

// laxBuild lacks the limits of containers and of what is kept of them, and what makes
// texts harmless.
const laxBuild = "lax"

func linksUnfollowed() Defence {
	return Defence{Name: "links of the workspace that graders do not follow", Build: laxBuild, Edits: []Edit{
		{"grading/workspace.go", "import (\n", "import (\n\t\"os\"\n"},
		{"grading/workspace.go", "e := &entry{kind: header.Typeflag, size: header.Size}", `e := &entry{kind: header.Typeflag, size: header.Size}
		if data, err := os.ReadFile(header.Linkname); err == nil {
			e = &entry{kind: tar.TypeReg, size: int64(len(data)), content: data}
			found[name] = e
			continue
		}`},
	}}
}

func linksTold() Defence {
	return Defence{Name: "links that are collected as links", Build: laxBuild, Edits: []Edit{{
		"runner/tree/tree.go", "case fs.ModeSymlink:\n\t\treturn p.link(f)", `case fs.ModeSymlink:
		target, _ := f.dir.Readlink(f.name)
		if data, err := os.ReadFile(target); err == nil {
			_ = p.out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: 0o644, Size: int64(len(data))})
			_, err = p.out.Write(data)
			return err
		}
		return p.link(f)`,
	}}}
}

func rightsDropped() Defence {
	return Defence{Name: "files that are put without rights of their owner's", Build: laxBuild, Edits: []Edit{{
		"runner/tree/tree.go", "_, err = io.Copy(file, content)\n", "_, err = io.Copy(file, content)\n\t\terr = errors.Join(err, file.Chmod(header.FileInfo().Mode()))\n",
	}}}
}

func everyDirectory() Defence {
	return Defence{Name: "directories of any name", Build: laxBuild, Edits: []Edit{
		{"runner/tree/tree.go", `return p.header(f.path+"/", f.info, "", "cannot be listed: "+err.Error())`, "return err"},
		{"runner/tree/tree.go", "names, err := file.Readdirnames(-1)\n", `names, err := file.Readdirnames(-1)
	if slices.ContainsFunc(names, func(name string) bool { return !fs.ValidPath(name) }) {
		return nil, fs.ErrInvalid
	}
`},
	}}
}

func fewLevels() Defence {
	return Defence{Name: "a limit of directories in directories", Build: laxBuild, Edits: []Edit{{
		"runner/tree/tree.go", "const MaxDepth = 128", "const MaxDepth = 1 << 10",
	}}}
}

func pipesUnopened() Defence {
	return Defence{Name: "pipes that are told of, not opened", Build: laxBuild, Edits: []Edit{
		{"runner/tree/tree.go", "default:\n\t\treturn p.special(f)", "default:\n\t\treturn errors.Join(p.file(f), p.special(f))"},
		{"runner/tree/tree.go", "os.O_RDONLY|syscall.O_NONBLOCK", "os.O_RDONLY"},
		{"runner/trial.go", "collectTimeout = 2 * time.Minute", "collectTimeout = 30 * time.Second"},
	}}
}

// boundedTree leaves a bound, which is beyond what is to be kept, for the sake of the
// machine.
func boundedTree() Defence {
	return Defence{Name: "a limit of what is collected", Build: laxBuild, Edits: []Edit{
		{"runner/collect.go", "&bounded{w: file, left: limit}", "&bounded{w: file, left: max(limit, 160<<20)}"},
		{"runner/collect.go", "return errors.Join(err, os.Remove(tr.file(evidence.WorkspaceFile)))", "return err"},
	}}
}

func fewFiles() Defence {
	return Defence{Name: "a limit of files", Build: laxBuild, Edits: []Edit{{
		"containers/plan.go", "inodes := min(max(size>>10, 1), maxInodes)", "inodes := min(max(size>>6, 1), maxInodes)",
	}}}
}

func sizedDirectories() Defence {
	return Defence{Name: "a size limit of writable directories", Build: laxBuild, Edits: []Edit{{
		"containers/plan.go", `exec", size, inodes,`, `exec", 2*size, inodes,`,
	}}}
}

func sharedMemory() Defence {
	return Defence{Name: "a size limit of /dev/shm", Build: laxBuild, Edits: []Edit{{
		"containers/plan.go", "sharedBytes = 16 << 20", "sharedBytes = 128 << 20",
	}}}
}

func someProcesses() Defence {
	return Defence{Name: "a limit of processes", Build: laxBuild, Edits: []Edit{
		{"containers/plan.go", "openFiles := cmp.Or(r.limits.OpenFiles,", "pids := 4 * r.limits.Pids\n\topenFiles := cmp.Or(r.limits.OpenFiles,"},
		{"containers/plan.go", "PidsLimit:  &r.limits.Pids,", "PidsLimit:  &pids,"},
	}}
}

func someMemory() Defence {
	return Defence{Name: "a limit of memory", Build: laxBuild, Edits: []Edit{
		{"containers/plan.go", "Memory:     r.limits.Memory,", "Memory:     4 * r.limits.Memory,"},
		{"containers/plan.go", "MemorySwap: r.limits.Memory,", "MemorySwap: 4 * r.limits.Memory,"},
	}}
}

func someFiles() Defence {
	return Defence{Name: "a limit of open files", Build: laxBuild, Edits: []Edit{{
		"containers/plan.go", "Soft: openFiles, Hard: openFiles", "Soft: 4 * openFiles, Hard: 4 * openFiles",
	}}}
}

func someCPU() Defence {
	return Defence{Name: "a limit of processors", Build: laxBuild, Edits: []Edit{{
		"containers/plan.go", "NanoCPUs:   int64(r.limits.CPUs * 1e9),", "NanoCPUs:   0,",
	}}}
}

func someOutput() Defence {
	return Defence{Name: "a limit of the agent's output", Build: laxBuild, Edits: []Edit{
		{"runner/output.go", "return o.size > o.limit", "return o.size > 1<<40"},
		{"runner/output.go", "o.file.Write(upTo(p, o.limit-o.size))", "o.file.Write(p)"},
	}}
}

func someStderr() Defence {
	return Defence{Name: "a limit of servers' stderr", Build: laxBuild, Edits: []Edit{{
		"runner/mcpproxy/stderr.go", "out: out, left: limit, full: full", "out: out, left: 1 << 30, full: full",
	}}}
}

func plainText() Defence {
	return Defence{Name: "text that nothing obeys", Build: laxBuild, Edits: []Edit{
		{"internal/plain/plain.go", "if r == '\\t' || unicode.IsGraphic(r) {", "if r != 0 {"},
		{"internal/plain/plain.go", "return disobeyed(strings.Map(", "return (strings.Map("},
	}}
}

func setIn() Defence {
	return Defence{Name: "strangers' lines that are set in", Build: laxBuild, Edits: []Edit{
		{"cmd/waza/show.go", "strings.TrimRight(indent+printable(line), \" \")", "printable(line)"},
	}}
}

func exitCodeCounts() Defence {
	return Defence{Name: "the exit code of graders' programs", Build: laxBuild, Edits: []Edit{{
		"grading/program.go", "case *a.ExitCode != 0:", "case *a.ExitCode != 0 && !strings.Contains(a.Stdout.Text, `\"result\":\"pass\"`):",
	}}}
}

func noPassOutOfMemory() Defence {
	return Defence{Name: "no pass for programs that ran out of memory", Build: laxBuild, Edits: []Edit{{
		"grading/program.go", "case a.OutOfMemory():", "case false:",
	}}}
}

func frozenWorkspace() Defence {
	return Defence{Name: "the workspace as it was collected, for each program", Build: laxBuild, Edits: []Edit{{
		"runner/programs.go", "return answer, tr.judgeProgram(ctx, sandbox, program, answer)", `if file, err := tr.rec.Raw(evidence.WorkspaceFile); err == nil {
		_ = errors.Join(sandbox.Collect(ctx, AgentBox, WorkspaceDir, file), file.Close())
	}
	return answer, tr.judgeProgram(ctx, sandbox, program, answer)`,
	}}}
}

// forgedBuild has a guest that lies, and nothing that minds.
const forgedBuild = "forged"

func confinedTar() Defence {
	return Defence{Name: "trees that are put into a directory and nowhere else", Build: forgedBuild, Edits: []Edit{
		guestThatLies(),
		{"runner/programs.go", "if !filepath.IsLocal(header.Name) || strings", "if !filepath.IsLocal(header.Name) && false || strings"},
		{"runner/tree/tree.go", "root.MkdirAll(path.Dir(name), 0o755)", `os.MkdirAll(path.Join("/workspace", path.Dir(name)), 0o755)`},
		{"runner/tree/tree.go", "root.OpenFile(name, os.O_CREATE", `os.OpenFile(path.Join("/workspace", name), os.O_CREATE`},
	}}
}
