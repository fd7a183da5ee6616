#pragma once
// What the commands `mvm fs ...` were asked to do, typed and checked.

#include <cstdint>
#include <optional>
#include <string>

#include "mvm/cli/arguments.h"
#include "mvm/proto/files.h"

namespace mvm::cli {

// NAME:PATH of a command line, with --root: a sandbox, and a place in it.
struct FileTarget {
  std::string sandbox;
  proto::FilePlace place;
  bool operator==(const FileTarget&) const = default;
};
FileTarget file_target(const Arguments& arguments);

proto::ReadRequest read_request(const Arguments& arguments);
proto::WriteRequest write_request(const Arguments& arguments);
proto::ListRequest list_request(const Arguments& arguments);
proto::MakeDirectoryRequest make_directory_request(const Arguments& arguments);
proto::RenameRequest rename_request(const Arguments& arguments);
// Events after which a watch ends; nothing: none.
std::optional<uint64_t> watch_count(const Arguments& arguments);

}
