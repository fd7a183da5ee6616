#include "exit_record.h"

#include <chrono>

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/uninterrupted.h"

namespace mvm::sandbox {

// A JSON string (RFC 8259). What is not ASCII is kept when it is printable text; the detail may
// quote the guest.
static std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : printable(text, proto::kMaxMessage)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// Under a new name first, so that a reader sees all of it or the one before.
static void write_record(int directory, const std::string& name, const std::string& json) {
  const std::string temporary = name + ".new";
  ::unlinkat(directory, temporary.c_str(), 0);
  const sys::Fd file = sys::open_at(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
  sys::write_all(file.get(), as_bytes(json));
  sys::check(sys::uninterrupted([&] { return ::fdatasync(file.get()); }), "syncing " + name);
  sys::check(::renameat(directory, temporary.c_str(), directory, name.c_str()), "renaming " + name);
}

void write_exit_record(int data_directory, const proto::SandboxEnd& end) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  write_record(data_directory, "exit.json",
               "{\"reason\":" + quoted(proto::end_reason_name(end.reason)) +
                   ",\"detail\":" + quoted(end.detail) +
                   ",\"ended_at_unix_ms\":" + std::to_string(now.count()) + "}\n");
}

void write_boot_record(int data_directory, uint64_t ready_ms,
                       const std::vector<std::pair<std::string, uint64_t>>& counters) {
  std::string json = "{\"ready_ms\":" + std::to_string(ready_ms) + ",\"counters\":{";
  for (size_t i = 0; i < counters.size(); ++i)
    json +=
        (i == 0 ? "" : ",") + quoted(counters[i].first) + ":" + std::to_string(counters[i].second);
  write_record(data_directory, "boot.json", json + "}}\n");
}

}
