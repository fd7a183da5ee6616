// There is no call that starts writing everything without waiting: sync(2) waits, and a thread or
// process of its own would be needed to. But a changed interval of the periodic writer wakes it,
// for everything that is dirty and not only for what is old enough (mm/page-writeback.c,
// dirty_writeback_centisecs_handler). So the interval is changed, and set back.
#include "write_out.h"

#include <fcntl.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

#include "init.h"

namespace mvm::guest {

static constexpr const char* kInterval = "/proc/sys/vm/dirty_writeback_centisecs";

void write_out() {
  try {
    std::string text = sys::read_text_file(kInterval, 64);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    const auto interval = parse_u64(text);
    if (!interval) return say(std::string("not a number in ") + kInterval);
    const sys::Fd file = sys::open_file(kInterval, O_WRONLY);
    for (const uint64_t value : {*interval + 1, *interval})
      sys::pwrite_all(file.get(), as_bytes(std::to_string(value)), 0);
  } catch (const Error& error) {
    say("writing out: " + error.message());
  }
}

}
