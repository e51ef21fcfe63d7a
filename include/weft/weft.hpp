/// All of weft. See README.md for the tour; each header opens with what it is for.
#pragma once

#include <weft/io/fd.hpp>
#include <weft/io/kernel.hpp>
#include <weft/sched/inline.hpp>
#include <weft/sched/loop.hpp>
#include <weft/sync/channel.hpp>
#include <weft/task/coro.hpp>
#include <weft/task/dump.hpp>
#include <weft/task/io.hpp>
#include <weft/task/local.hpp>
#include <weft/task/scope.hpp>
#include <weft/task/within.hpp>
#include <weft/task/worker.hpp>
#include <weft/time/sleep.hpp>
#include <weft/wait/combine.hpp>
#include <weft/wait/park.hpp>
#include <weft/wait/perform.hpp>
