package bench

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Origin says where numbers were measured.
type Origin struct {
	Commit string `json:"commit"` // of the source; "-dirty" when files differed from it, "unknown" outside a work tree
	Go     string `json:"go"`
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPU    string `json:"cpu,omitempty"` // the processor's own name, where the system tells it
	CPUs   int    `json:"cpus"`
}

// Here describes this machine and the source in the current folder.
func Here() Origin {
	return Origin{
		Commit: commit(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		CPU: processor(), CPUs: runtime.NumCPU(),
	}
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// processor reads Linux's name for the first processor.
func processor() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
