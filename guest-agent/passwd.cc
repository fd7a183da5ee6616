#include "passwd.h"

#include <algorithm>
#include <optional>
#include <span>

#include <fcntl.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::guest {

// (uid_t)-1 means "leave it" to the kernel, so it is nobody's number.
static constexpr uint64_t kMaxId = UINT32_MAX - 1;

static std::optional<uint32_t> parse_id(std::string_view text) {
  const auto value = parse_u64(text);
  if (!value || *value > kMaxId) return std::nullopt;
  return static_cast<uint32_t>(*value);
}

// Calls `visit` with the fields of each line, until it returns true.
template <typename Visit>
static void each_line(std::string_view file, Visit visit) {
  while (!file.empty()) {
    const size_t end = file.find('\n');
    if (visit(split(file.substr(0, end), ':')) || end == std::string_view::npos) return;
    file.remove_prefix(end + 1);
  }
}

struct Account {
  std::string name;
  uid_t uid;
  gid_t gid;
  std::string home;
  std::string shell;
};

// name:password:uid:gid:comment:home:shell. A name wins over a number, as everywhere.
static std::optional<Account> find_account(std::string_view wanted, std::string_view passwd) {
  const auto number = parse_id(wanted);
  std::optional<Account> by_number;
  std::optional<Account> by_name;
  each_line(passwd, [&](const std::vector<std::string_view>& field) {
    if (field.size() < 7 || field[0].empty()) return false;
    const auto uid = parse_id(field[2]);
    const auto gid = parse_id(field[3]);
    if (!uid || !gid) return false;
    const Account account{std::string(field[0]), *uid, *gid, std::string(field[5]),
                          std::string(field[6])};
    if (field[0] == wanted) by_name = account;
    if (number && *uid == *number && !by_number) by_number = account;
    return by_name.has_value();
  });
  return by_name ? by_name : by_number;
}

// name:password:gid:member,member
static std::optional<gid_t> find_group(std::string_view wanted, std::string_view group) {
  std::optional<gid_t> found;
  each_line(group, [&](const std::vector<std::string_view>& field) {
    if (field.size() >= 3 && field[0] == wanted) found = parse_id(field[2]);
    return found.has_value();
  });
  return found ? found : parse_id(wanted);
}

static std::vector<gid_t> groups_of(const Identity& identity, std::string_view group) {
  std::vector<gid_t> groups{identity.gid};
  // A group without members lists one empty name.
  if (identity.name.empty()) return groups;
  each_line(group, [&](const std::vector<std::string_view>& field) {
    if (field.size() < 4) return false;
    const auto gid = parse_id(field[2]);
    const auto members = split(field[3], ',');
    const bool in = std::find(members.begin(), members.end(), identity.name) != members.end();
    if (gid && in && std::find(groups.begin(), groups.end(), *gid) == groups.end())
      groups.push_back(*gid);
    return groups.size() >= kMaxSupplementaryGroups;
  });
  return groups;
}

Expected<Identity, std::string> find_identity(std::string_view spec, std::string_view passwd,
                                              std::string_view group) {
  const size_t colon = spec.find(':');
  const std::string_view user = spec.substr(0, colon);
  Identity identity;
  if (const auto account = find_account(user, passwd)) {
    identity.uid = account->uid;
    identity.gid = account->gid;
    identity.name = account->name;
    if (!account->home.empty()) identity.home = account->home;
    if (!account->shell.empty()) identity.shell = account->shell;
  } else if (const auto uid = parse_id(user)) {
    identity.uid = *uid;
  } else {
    return Unexpected{"no user '" + printable(user) + "' in the sandbox's /etc/passwd"};
  }
  if (colon == std::string_view::npos) {
    identity.groups = groups_of(identity, group);
    return identity;
  }
  const std::string_view wanted = spec.substr(colon + 1);
  const auto gid = find_group(wanted, group);
  if (!gid) return Unexpected{"no group '" + printable(wanted) + "' in the sandbox's /etc/group"};
  identity.gid = *gid;
  identity.groups = {*gid};
  return identity;
}

std::optional<std::string> add_groups(Identity& identity, const std::vector<std::string>& wanted,
                                      std::string_view group) {
  for (const auto& name : wanted) {
    const auto gid = find_group(name, group);
    if (!gid) return "no group '" + printable(name) + "' in the sandbox's /etc/group";
    auto& groups = identity.groups;
    if (std::find(groups.begin(), groups.end(), *gid) == groups.end()) groups.push_back(*gid);
  }
  return std::nullopt;
}

static std::string read_account_file(const std::string& path) {
  try {
    // Not blocking: the image, or a command, may have put a pipe there.
    const sys::Fd file = sys::open_file(path, O_RDONLY | O_NONBLOCK);
    if (!sys::is_regular_file(file.get()) || sys::file_size(file.get()) > kMaxAccountFile)
      return {};
    std::string text(sys::file_size(file.get()), '\0');
    text.resize(sys::pread_some(file.get(), std::as_writable_bytes(std::span(text)), 0));
    return text;
  } catch (const Error&) {
    // Absent, unreadable or absurdly large: numbers still work, and a name is then not found.
    return {};
  }
}

Expected<Identity, std::string> find_identity(std::string_view spec) {
  return find_identity(spec, read_account_file("/etc/passwd"), read_account_file("/etc/group"));
}

std::optional<std::string> add_groups(Identity& identity, const std::vector<std::string>& wanted) {
  if (wanted.empty()) return std::nullopt;
  return add_groups(identity, wanted, read_account_file("/etc/group"));
}

}
