#include "exit_record.h"

#include <chrono>

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

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

void write_exit_record(int data_directory, const proto::SandboxEnd& end) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  const std::string json = "{\"reason\":" + quoted(proto::end_reason_name(end.reason)) +
                           ",\"detail\":" + quoted(end.detail) +
                           ",\"ended_at_unix_ms\":" + std::to_string(now.count()) + "}\n";
  const char* const temporary = "exit.json.new";
  ::unlinkat(data_directory, temporary, 0);
  const sys::Fd file =
      sys::open_at(data_directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
  sys::write_all(file.get(), as_bytes(json));
  sys::check(::fdatasync(file.get()), "syncing exit.json");
  sys::check(::renameat(data_directory, temporary, data_directory, "exit.json"),
             "renaming exit.json");
}

}
