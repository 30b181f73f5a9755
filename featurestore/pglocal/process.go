package pglocal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// process is a running server.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended and was waited for
}

// begin starts cmd outside our process group, so that a Ctrl-C reaches us and
// not the server, and where the system can, bound to our life.
func begin(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr)
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel binds the child to the thread that started it, so that
		// thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		_ = cmd.Wait() // how it ended is in its log
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// interrupt asks for what Postgres calls a fast shutdown.
func (p *process) interrupt() { _ = p.cmd.Process.Signal(syscall.SIGINT) }

// kill ends the server and its children at once and waits for the server.
func (p *process) kill() {
	pid := p.cmd.Process.Pid
	_ = p.cmd.Process.Signal(syscall.SIGSTOP) // so that no more children appear
	children := childrenOf(pid)
	_ = p.cmd.Process.Kill()
	for _, child := range children {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	<-p.ended
}

// lockDir makes this process the only one that runs the cluster in dir. The
// system lets go of it when we end, however we end.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := make([]byte, 32)
		n, _ := f.ReadAt(holder, 0)
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another process (%s) runs Postgres there: end it or choose another data directory", holder[:n])
		}
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt(fmt.Appendf(nil, "pid %d", os.Getpid()), 0)
	}
	return f, nil
}
