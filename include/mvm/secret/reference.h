#pragma once
// From where a secret is said to be to its value.
//
//   env:NAME        a variable of this process
//   file:PATH       a file's content; "~/" is the home directory
//   keyring:NAME    a key of type "user" in the kernel's keyrings of this session and user
//   cmd:COMMAND     what a command prints, run by /bin/sh
//   stored:NAME     what `mvm secret set NAME` was given
//   (empty)         stored under the secret's own name, else the variable of that name
//
// Of files and commands, one line end at the end is not part of the value.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "mvm/secret/store.h"

namespace mvm::secret {

struct Sources {
  std::function<std::optional<std::string>(std::string_view)> variable;
  std::string directory;  // relative paths of file: start here
  const Store& store;
  std::chrono::milliseconds patience = std::chrono::seconds(30);  // with a command
};

// Throws Error{NotFound} when there is none there, and other kinds for what is too large, cannot be
// read or fails; the message says where, and nothing of the value.
std::string look_up(const std::string& name, const std::string& from, const Sources& sources);

// file: with an absolute path, so that it means the same wherever it is looked up next.
std::string absolute_reference(const std::string& from, const Sources& sources);

}
