// The contender `go`: the same work, names and units as bench/suite, in Go. What it understands is
// written in bench/suite/protocol.hpp. tools/bench builds it: GO111MODULE=off go build
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
)

type measure struct {
	name  string
	value float64
	unit  string
}

type result struct {
	value float64
	more  []measure
}

// A benchmark of one figure.
func one(run func(size int) float64) func(int) result {
	return func(size int) result { return result{value: run(size)} }
}

type benchmark struct {
	name, unit string
	size       int
	run        func(size int) result
}

func per(start time.Time, count int) float64 {
	return float64(time.Since(start).Nanoseconds()) / float64(count)
}

func expect(right bool, what string) {
	if !right {
		fmt.Fprintln(os.Stderr, "wrong:", what)
		os.Exit(1)
	}
}

func usageError(what string) {
	fmt.Fprintf(os.Stderr, "%s: %s\nusage: %s --list | --workers N [--size K] NAME\n",
		os.Args[0], what, os.Args[0])
	os.Exit(2)
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		usageError("'" + text + "' is not a number above 0")
	}
	return n
}

func all() []benchmark {
	return append(append(taskBenchmarks(), syncBenchmarks()...), worldBenchmarks()...)
}

func main() {
	workers, size, name := 1, 0, ""
	for i := 1; i < len(os.Args); i++ {
		word := os.Args[i]
		switch {
		case word == "--list":
			for _, b := range all() {
				fmt.Println(b.name)
			}
			fmt.Println("serve")
			return
		case word == "--workers" && i+1 < len(os.Args):
			i++
			workers = number(os.Args[i])
		case word == "--size" && i+1 < len(os.Args):
			i++
			size = number(os.Args[i])
		case word[0] == '-' || name != "":
			usageError("cannot make sense of '" + word + "'")
		default:
			name = word
		}
	}
	runtime.GOMAXPROCS(workers)
	if name == "serve" {
		serve()
		return
	}
	for _, b := range all() {
		if b.name != name {
			continue
		}
		if size == 0 {
			size = b.size
		}
		r := b.run(size)
		fmt.Printf("%s %.6g %s\n", b.name, r.value, b.unit)
		for _, m := range r.more {
			fmt.Printf("%s.%s %.6g %s\n", b.name, m.name, m.value, m.unit)
		}
		return
	}
	usageError("there is no benchmark '" + name + "'; --list names them")
}
