// What touches the machine: sleeping threads, timers, memory, sockets.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The sender is wired to a thread of its own, as near as Go comes to a plain thread.
func wakeLatency(size int) result {
	c := make(chan time.Time)
	ns := make([]float64, 0, size)
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		for sent := range c {
			ns = append(ns, float64(time.Since(sent).Nanoseconds()))
		}
		wg.Done()
	}()
	runtime.LockOSThread()
	for i := 0; i < size; i++ {
		time.Sleep(time.Millisecond)
		c <- time.Now()
	}
	runtime.UnlockOSThread()
	close(c)
	wg.Wait()
	sort.Float64s(ns)
	p99 := ns[len(ns)*99/100] / 1e3
	return result{ns[len(ns)/2] / 1e3, []measure{{"p99", p99, "us"}}}
}

func cpuMs() float64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e6
}

func timers(size int) float64 {
	before := cpuMs()
	var wg sync.WaitGroup
	wg.Add(size)
	step := time.Second / time.Duration(size)
	for i := 0; i < size; i++ {
		nap := step * time.Duration(i)
		go func() {
			time.Sleep(nap)
			wg.Done()
		}()
	}
	wg.Wait()
	return cpuMs() - before
}

// The number in kB after `key` in a file of /proc/self, in bytes.
func procBytes(file, key string) float64 {
	f, err := os.Open("/proc/self/" + file)
	expect(err == nil, "cannot read /proc/self/"+file)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == key {
			kb, _ := strconv.ParseFloat(words[1], 64)
			return kb * 1024
		}
	}
	return 0
}

func residentBytes() float64 {
	return procBytes("smaps_rollup", "Rss:") + procBytes("status", "VmPTE:")
}

func memory(size int) float64 {
	gate := make(chan int)
	var parked, woken int64
	var wg sync.WaitGroup
	wg.Add(size)
	before := residentBytes()
	for i := 0; i < size; i++ {
		go func() {
			atomic.AddInt64(&parked, 1)
			<-gate
			atomic.AddInt64(&woken, 1)
			wg.Done()
		}()
	}
	for atomic.LoadInt64(&parked) < int64(size) {
		runtime.Gosched()
	}
	used := residentBytes() - before
	close(gate)
	wg.Wait()
	expect(woken == int64(size), "not every task was woken")
	return used / float64(size)
}

func echo(c net.Conn) {
	defer c.Close()
	var buffer [1024]byte
	for {
		n, err := c.Read(buffer[:])
		if err != nil {
			return
		}
		if _, err = c.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func serve() {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	expect(err == nil, "cannot listen")
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		c, err := listener.Accept()
		expect(err == nil, "cannot accept")
		go echo(c)
	}
}

func worldBenchmarks() []benchmark {
	return []benchmark{
		{"wake_latency", "us", 200, wakeLatency},
		{"timers_1m", "ms CPU", 1000000, one(timers)},
		{"memory_1m", "bytes", 1000000, one(memory)},
	}
}
