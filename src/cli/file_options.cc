#include "mvm/cli/file_options.h"

#include "mvm/base/text.h"
#include "mvm/cli/options.h"

namespace mvm::cli {
namespace {

[[noreturn]] void wrong(const Arguments& arguments, std::string message) {
  throw UsageError(&arguments.command(), std::move(message));
}

void check_path(const Arguments& arguments, const std::string& path) {
  if (path.empty()) wrong(arguments, "a path cannot be empty");
  if (path.size() > proto::kMaxPath)
    wrong(arguments, "a path must be at most " + std::to_string(proto::kMaxPath) + " bytes");
  const bool rooted = arguments.flag("root");
  if (rooted && path.front() == '/')
    wrong(arguments, "with --root a path is relative to it, not '" + printable(path, 40) + "'");
  if (!rooted && path.front() != '/')
    wrong(arguments, "a path in a sandbox is absolute, such as NAME:/" + printable(path, 40) +
                         ", unless --root is given");
}

std::optional<uint64_t> size_option(const Arguments& arguments, std::string_view name) {
  const auto text = arguments.value(name);
  if (!text) return std::nullopt;
  const auto size = parse_size(*text);
  if (!size || *size > proto::kMaxFileSize)
    wrong(arguments, "--" + std::string(name) +
                         " must be a number of bytes or a size such as 4G, " + "at most " +
                         format_size(proto::kMaxFileSize) + ", not '" + printable(*text, 40) + "'");
  return size;
}

std::optional<uint64_t> count_option(const Arguments& arguments, std::string_view name) {
  const auto text = arguments.value(name);
  if (!text) return std::nullopt;
  const auto count = parse_u64(*text);
  if (!count || *count == 0 || *count > proto::kMaxListEntries)
    wrong(arguments, "--" + std::string(name) + " must be a number from 1 to " +
                         std::to_string(proto::kMaxListEntries) + ", not '" + printable(*text, 40) +
                         "'");
  return count;
}

// Octal, as chmod(1) has it.
std::optional<uint32_t> mode_option(const Arguments& arguments) {
  const auto text = arguments.value("mode");
  if (!text) return std::nullopt;
  uint32_t mode = 0;
  bool good = !text->empty() && text->size() <= 5;
  for (const char c : *text) {
    good = good && c >= '0' && c <= '7';
    mode = mode * 8 + static_cast<uint32_t>(c - '0');
  }
  if (!good || mode > 07777)
    wrong(arguments, "--mode must be octal such as 0644, not '" + printable(*text, 40) + "'");
  return mode;
}

std::string user_option(const Arguments& arguments) {
  std::string user = arguments.value("user").value_or("");
  if (user.size() > proto::kMaxUserName || (arguments.flag("user") && user.empty()))
    wrong(arguments, "--user must be a name, a uid, or uid:gid");
  return user;
}

}

FileTarget file_target(const Arguments& arguments) {
  const std::string text = *arguments.positional("NAME:PATH");
  const size_t colon = text.find(':');
  if (colon == text.npos || colon == 0)
    wrong(arguments, "'" + printable(text, 40) + "' must be NAME:PATH, such as agent-sandbox:/etc");
  FileTarget target;
  target.sandbox = checked_name(arguments, text.substr(0, colon));
  target.place.path = text.substr(colon + 1);
  target.place.root = arguments.value("root").value_or("");
  if (arguments.flag("root") && (target.place.root.empty() || target.place.root.front() != '/'))
    wrong(arguments, "--root must be an absolute path in the sandbox");
  check_path(arguments, target.place.path);
  return target;
}

proto::ReadRequest read_request(const Arguments& arguments) {
  proto::ReadRequest request;
  request.place = file_target(arguments).place;
  request.offset = size_option(arguments, "offset").value_or(0);
  request.length = size_option(arguments, "length");
  request.redact = arguments.flag("redact");
  return request;
}

proto::WriteRequest write_request(const Arguments& arguments) {
  proto::WriteRequest request;
  request.place = file_target(arguments).place;
  request.offset = size_option(arguments, "offset");
  request.append = arguments.flag("append");
  if (request.append && request.offset) wrong(arguments, "--append and --offset contradict");
  request.exclusive = arguments.flag("new");
  request.mode = mode_option(arguments);
  request.user = user_option(arguments);
  request.limit = size_option(arguments, "limit").value_or(proto::kMaxFileSize);
  request.sync = arguments.flag("sync");
  return request;
}

proto::ListRequest list_request(const Arguments& arguments) {
  proto::ListRequest request;
  request.place = file_target(arguments).place;
  request.limit = count_option(arguments, "limit").value_or(0);
  if (arguments.flag("long") && arguments.flag("json"))
    wrong(arguments, "--long and --json contradict");
  return request;
}

proto::MakeDirectoryRequest make_directory_request(const Arguments& arguments) {
  proto::MakeDirectoryRequest request;
  request.place = file_target(arguments).place;
  request.mode = mode_option(arguments).value_or(request.mode);
  request.parents = arguments.flag("parents");
  request.user = user_option(arguments);
  return request;
}

proto::RenameRequest rename_request(const Arguments& arguments) {
  proto::RenameRequest request;
  request.from = file_target(arguments).place;
  request.to = *arguments.positional("TO");
  check_path(arguments, request.to);
  request.keep_existing = arguments.flag("no-replace");
  return request;
}

std::optional<uint64_t> watch_count(const Arguments& arguments) {
  return count_option(arguments, "count");
}

}
