// mvm fs: single files of a running sandbox; and mvm stats. Like exec they speak to the sandbox's
// own socket.

#include "mvm/agent/files.h"

#include <array>
#include <csignal>
#include <ctime>

#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/cli/file_options.h"
#include "mvm/sys/io.h"

#include "json_text.h"
#include "sandbox_link.h"
#include "terminal.h"

namespace mvm::cli {
namespace {

// Runs `body` with a connection to the target's sandbox. Interrupted it hangs up, and the sandbox
// clears away what was half done.
template <typename Body>
int with_sandbox(Context& context, const std::string& sandbox, Body body) {
  constexpr std::array kTaken = {SIGINT, SIGTERM, SIGHUP};
  SignalQueue signals(kTaken);
  agent::Connection connection(connect_sandbox(context, sandbox), signals.fd());
  try {
    body(connection);
    return kFine;
  } catch (const Error&) {
    const auto number = signals.next();
    if (!number) throw;
    return 128 + *number;
  }
}

std::string octal(uint32_t mode) {
  std::string text;
  for (int shift = 9; shift >= 0; shift -= 3) text += static_cast<char>('0' + (mode >> shift & 7));
  return text;
}

// ISO 8601 (UTC); the number where it is no date.
std::string time_text(int64_t seconds) {
  const time_t time = seconds;
  std::tm parts{};
  std::array<char, 32> text{};
  if (::gmtime_r(&time, &parts) == nullptr ||
      std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
    return std::to_string(seconds);
  return text.data();
}

std::string shown_name(const proto::ListEntry& entry) {
  const bool link = entry.status.type == proto::FileType::Symlink;
  return printable(entry.name, proto::kMaxPath) +
         (link ? " -> " + printable(entry.status.target, proto::kMaxPath) : "");
}

std::string long_line(const proto::ListEntry& entry) {
  const proto::FileStatus& status = entry.status;
  std::string size = std::to_string(status.size);
  size.insert(0, 12 - std::min<size_t>(12, size.size()), ' ');
  std::string type(proto::file_type_name(status.type));
  type.resize(12, ' ');
  return type + ' ' + octal(status.mode) + ' ' + std::to_string(status.uid) + ':' +
         std::to_string(status.gid) + ' ' + size + ' ' + time_text(status.mtime_seconds) + ' ' +
         shown_name(entry) + '\n';
}

int stat(Context& context, const Arguments& arguments) {
  const FileTarget target = file_target(arguments);
  return with_sandbox(context, target.sandbox, [&](agent::Connection& connection) {
    const auto status = agent::stat_file(connection, {target.place, arguments.flag("follow-link")});
    if (arguments.flag("json")) return context.console.out(json_file(status));
    std::vector<std::vector<std::string>> rows = {
        {"type", std::string(proto::file_type_name(status.type))},
        {"size", std::to_string(status.size)},
        {"allocated", std::to_string(status.allocated)},
        {"mode", octal(status.mode)},
        {"owner", std::to_string(status.uid) + ":" + std::to_string(status.gid)},
        {"modified", time_text(status.mtime_seconds)},
        {"links", std::to_string(status.links)}};
    if (!status.target.empty())
      rows.push_back({"target", printable(status.target, proto::kMaxPath)});
    context.console.out(table(rows));
  });
}

int list(Context& context, const Arguments& arguments) {
  const FileTarget target = file_target(arguments);
  const bool json = arguments.flag("json");
  const bool with_details = arguments.flag("long");
  return with_sandbox(context, target.sandbox, [&](agent::Connection& connection) {
    // Written as it comes: a directory may be larger than what one wants to hold.
    std::string text = json ? "{\"entries\":[" : "";
    const auto drain = [&](size_t least) {
      if (text.size() < least) return;
      context.console.out(text);
      text.clear();
    };
    bool first = true;
    const auto result =
        agent::list_files(connection, list_request(arguments), [&](const proto::ListEntry& entry) {
          if (json) {
            text += (first ? "" : ",") + json_list_entry(entry);
          } else {
            text += with_details ? long_line(entry) : printable(entry.name, proto::kMaxPath) + '\n';
          }
          first = false;
          drain(size_t{32} * 1024);
        });
    if (json)
      text += std::string("],\"truncated\":") + (result.truncated ? "true" : "false") + "}\n";
    drain(1);
    if (result.truncated && !json)
      context.console.err("mvm: there are more; --limit ended the list\n");
  });
}

int read(Context& context, const Arguments& arguments) {
  return with_sandbox(context, file_target(arguments).sandbox, [&](agent::Connection& connection) {
    agent::read_file(connection, read_request(arguments),
                     [&](ByteView content) { sys::write_all(STDOUT_FILENO, content); });
  });
}

int write(Context& context, const Arguments& arguments) {
  return with_sandbox(context, file_target(arguments).sandbox, [&](agent::Connection& connection) {
    Bytes buffer(proto::kMaxPayload);
    const auto result =
        agent::write_file(connection, write_request(arguments), [&](size_t room) -> ByteView {
          const auto got =
              sys::read_some(STDIN_FILENO, std::span(buffer).first(std::min(room, buffer.size())));
          return ByteView(buffer).first(got.value_or(0));
        });
    if (arguments.flag("json")) context.console.out(json_number("bytes", result.bytes));
  });
}

int watch(Context& context, const Arguments& arguments) {
  const FileTarget target = file_target(arguments);
  auto left = watch_count(arguments);
  return with_sandbox(context, target.sandbox, [&](agent::Connection& connection) {
    agent::watch_files(connection, {target.place}, [&](const proto::WatchEvent& event) {
      if (arguments.flag("json")) {
        context.console.out(json_watch_event(event));
      } else {
        context.console.out(
            std::string(proto::kWatchKinds.at(static_cast<size_t>(event.kind))) +
            (event.name.empty() ? "" : " " + printable(event.name, proto::kMaxPath)) + '\n');
      }
      const bool counts = event.kind != proto::WatchKind::Ready;
      return !left || !counts || --*left > 0;
    });
  });
}

int make_directory(Context& context, const Arguments& arguments) {
  return with_sandbox(context, file_target(arguments).sandbox, [&](agent::Connection& connection) {
    agent::make_directory(connection, make_directory_request(arguments));
  });
}

int rename(Context& context, const Arguments& arguments) {
  return with_sandbox(context, file_target(arguments).sandbox, [&](agent::Connection& connection) {
    agent::rename_file(connection, rename_request(arguments));
  });
}

int unlink(Context& context, const Arguments& arguments) {
  const FileTarget target = file_target(arguments);
  return with_sandbox(context, target.sandbox, [&](agent::Connection& connection) {
    const auto result = agent::remove_file(connection, {target.place, arguments.flag("recursive")});
    if (arguments.flag("json")) context.console.out(json_number("entries", result.entries));
  });
}

}

int files(Context& context, const Arguments& arguments) {
  switch (arguments.command().verb) {
    case Verb::FileRead:
      return read(context, arguments);
    case Verb::FileWrite:
      return write(context, arguments);
    case Verb::FileStat:
      return stat(context, arguments);
    case Verb::FileList:
      return list(context, arguments);
    case Verb::FileMakeDirectory:
      return make_directory(context, arguments);
    case Verb::FileMove:
      return rename(context, arguments);
    case Verb::FileRemove:
      return unlink(context, arguments);
    default:
      return watch(context, arguments);
  }
}

int stats(Context& context, const Arguments& arguments) {
  constexpr agent::Milliseconds kLimit{30'000};
  return with_sandbox(context, sandbox_name(arguments), [&](agent::Connection& connection) {
    const proto::Metrics metrics = connection.metrics(kLimit);
    if (arguments.flag("json")) return context.console.out(json_metrics(metrics));
    const auto of = [](uint64_t used, uint64_t total) {
      return format_size(used) + " of " + format_size(total);
    };
    const auto used = [](uint64_t total, uint64_t left) { return total - std::min(total, left); };
    context.console.out(table({
        {"uptime", format_duration_ms(metrics.uptime_ms)},
        {"memory", of(used(metrics.memory_total, metrics.memory_available), metrics.memory_total)},
        {"memory kills", std::to_string(metrics.memory_kills)},
        {"cpus", std::to_string(metrics.cpus)},
        {"cpu time", format_duration_ms(metrics.cpu_user_ms) + " user, " +
                         format_duration_ms(metrics.cpu_system_ms) + " system, " +
                         format_duration_ms(metrics.cpu_steal_ms) + " taken by the host"},
        {"tasks", std::to_string(metrics.tasks)},
        {"commands", std::to_string(metrics.commands)},
        {"disk", of(used(metrics.disk_total, metrics.disk_available), metrics.disk_total)},
    }));
  });
}

}
