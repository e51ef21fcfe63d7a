// The pool's benchmarks in Go: peer_go [-workers 1,2] [-rounds 5] [NAME...]
// Same names, units and work as prog_pool, and as bench_sync where it says chan, mutex or select.
// Built by hand: GO111MODULE=off go build -o peer_go
package main

import (
	"flag"
	"fmt"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func spawnJoin() float64 {
	const count = 200000
	start := time.Now()
	done := make(chan struct{})
	for i := 0; i < count; i++ {
		go func() { done <- struct{}{} }()
		<-done
	}
	return float64(time.Since(start).Nanoseconds()) / count
}

func yield100() float64 {
	const count, tasks = 1000000, 100
	start := time.Now()
	var wg sync.WaitGroup
	wg.Add(tasks)
	for t := 0; t < tasks; t++ {
		go func() {
			for i := 0; i < count/tasks; i++ {
				runtime.Gosched()
			}
			wg.Done()
		}()
	}
	wg.Wait()
	return float64(time.Since(start).Nanoseconds()) / count
}

func fanout() float64 {
	const count = 1000000
	var ran int64
	start := time.Now()
	var wg sync.WaitGroup
	wg.Add(count)
	for i := 0; i < count; i++ {
		go func() {
			atomic.AddInt64(&ran, 1)
			wg.Done()
		}()
	}
	wg.Wait()
	return float64(time.Since(start).Nanoseconds()) / count
}

func skynetInto(c chan int64, number, leaves int64) {
	if leaves == 1 {
		c <- number
		return
	}
	rc := make(chan int64, 10)
	for i := int64(0); i < 10; i++ {
		go skynetInto(rc, number+i*leaves/10, leaves/10)
	}
	var sum int64
	for i := 0; i < 10; i++ {
		sum += <-rc
	}
	c <- sum
}

func skynet() float64 {
	start := time.Now()
	c := make(chan int64, 1)
	go skynetInto(c, 0, 1000000)
	if <-c != 499999500000 {
		panic("wrong sum")
	}
	return float64(time.Since(start).Nanoseconds()) / 1e6
}

func fibOf(n int) int {
	if n < 2 {
		return n
	}
	c := make(chan int, 1)
	go func() { c <- fibOf(n - 1) }()
	right := fibOf(n - 2)
	return <-c + right
}

func fib() float64 {
	start := time.Now()
	if fibOf(24) != 46368 {
		panic("wrong fib")
	}
	return float64(time.Since(start).Nanoseconds()) / 75024
}

func pingpong() float64 {
	const count = 200000
	ping, pong := make(chan int), make(chan int)
	go func() {
		for v := range ping {
			pong <- v
		}
	}()
	start := time.Now()
	for i := 0; i < count; i++ {
		ping <- i
		<-pong
	}
	close(ping)
	return float64(time.Since(start).Nanoseconds()) / count
}

func wakeUp() float64 {
	const count = 200
	c := make(chan time.Time)
	ns := make([]float64, 0, count)
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		for sent := range c {
			ns = append(ns, float64(time.Since(sent).Nanoseconds()))
		}
		wg.Done()
	}()
	runtime.LockOSThread()
	for i := 0; i < count; i++ {
		time.Sleep(time.Millisecond)
		c <- time.Now()
	}
	runtime.UnlockOSThread()
	close(c)
	wg.Wait()
	sort.Float64s(ns)
	return ns[len(ns)/2]
}

func burst() float64 {
	const count = 100000
	var wg sync.WaitGroup
	wg.Add(count)
	start := time.Now()
	for i := 0; i < count; i++ {
		go wg.Done()
	}
	wg.Wait()
	return float64(time.Since(start).Nanoseconds()) / count
}

// From `ends` senders to as many receivers; per value.
func channel(capacity, ends int) func() float64 {
	return func() float64 {
		const count = 200000
		c := make(chan int, capacity)
		var senders, receivers sync.WaitGroup
		start := time.Now()
		for i := 0; i < ends; i++ {
			senders.Add(1)
			receivers.Add(1)
			go func() {
				for k := 0; k < count/ends; k++ {
					c <- k
				}
				senders.Done()
			}()
			go func() {
				for range c {
				}
				receivers.Done()
			}()
		}
		senders.Wait()
		close(c)
		receivers.Wait()
		return float64(time.Since(start).Nanoseconds()) / count
	}
}

func mutex(tasks int, across bool) func() float64 {
	return func() float64 {
		const count = 400000
		var m sync.Mutex
		var wg sync.WaitGroup
		start := time.Now()
		for i := 0; i < tasks; i++ {
			wg.Add(1)
			go func() {
				for k := 0; k < count/tasks; k++ {
					m.Lock()
					if across {
						runtime.Gosched()
					}
					m.Unlock()
				}
				wg.Done()
			}()
		}
		wg.Wait()
		return float64(time.Since(start).Nanoseconds()) / count
	}
}

// Over eight channels that are fed in turn.
func select8() float64 {
	const count = 200000
	var c [8]chan int
	for i := range c {
		c[i] = make(chan int)
	}
	go func() {
		for i := 0; i < count; i++ {
			c[i%8] <- i
		}
	}()
	start := time.Now()
	for i := 0; i < count; i++ {
		select {
		case <-c[0]:
		case <-c[1]:
		case <-c[2]:
		case <-c[3]:
		case <-c[4]:
		case <-c[5]:
		case <-c[6]:
		case <-c[7]:
		}
	}
	return float64(time.Since(start).Nanoseconds()) / count
}

func main() {
	workers := flag.String("workers", "1,2", "GOMAXPROCS, one after the other")
	rounds := flag.Int("rounds", 5, "measurements of each")
	flag.Parse()
	benchmarks := []struct {
		name, unit string
		measure    func() float64
	}{
		{"spawn_join", "ns", spawnJoin}, {"yield_100", "ns", yield100},
		{"fanout_1m", "ns/task", fanout}, {"skynet_1m", "ms", skynet}, {"fib", "ns/call", fib},
		{"pingpong", "ns", pingpong}, {"wake_up", "ns", wakeUp}, {"burst_100k", "ns/task", burst},
		{"chan_1_to_1_0", "ns", channel(0, 1)}, {"chan_1_to_1_1", "ns", channel(1, 1)},
		{"chan_1_to_1_128", "ns", channel(128, 1)}, {"chan_4_to_4_128", "ns", channel(128, 4)},
		{"mutex_8", "ns", mutex(8, false)}, {"mutex_64", "ns", mutex(64, false)},
		{"mutex_8_yield", "ns", mutex(8, true)}, {"select_8", "ns", select8},
	}
	for _, b := range benchmarks {
		wanted := flag.NArg() == 0
		for _, name := range flag.Args() {
			wanted = wanted || name == b.name
		}
		if !wanted {
			continue
		}
		for _, text := range strings.Split(*workers, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				panic("-workers: not a number above 0: " + text)
			}
			runtime.GOMAXPROCS(n)
			var results []float64
			for r := 0; r < *rounds; r++ {
				runtime.GC()
				results = append(results, b.measure())
			}
			sort.Float64s(results)
			median := results[len(results)/2]
			fmt.Printf("%-16s %3d  %12.1f %12.1f  %s\n", b.name, n, median, results[0], b.unit)
		}
	}
}
