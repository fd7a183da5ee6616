#include "trust.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include <sys/stat.h>

#include <climits>

#include "mvm/base/error.h"
#include "mvm/proto/control.h"
#include "mvm/sys/file.h"

#include "java_store.h"

namespace mvm::guest {
namespace {

// Where distributions keep the authorities that all programs trust: Debian, Alpine and Arch;
// Fedora; openSUSE; OpenSSL's own default; NixOS.
constexpr std::array<std::string_view, 6> kBundles{
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs/ca-bundle.crt"};
constexpr std::string_view kAlone = "/etc/ssl/certs/mvm-sandbox.pem";
constexpr size_t kMaxBundle = size_t{8} << 20;
constexpr unsigned kMode = 0644;

constexpr std::string_view kBegin = "# This sandbox's own authority, made anew at each start\n";
constexpr std::string_view kEnd = "# End of the sandbox's own authority\n";

std::string with_authority(std::string bundle, std::string_view authority) {
  const size_t begin = bundle.find(kBegin);
  const size_t end = begin == bundle.npos ? bundle.npos : bundle.find(kEnd, begin);
  if (end != bundle.npos) bundle.erase(begin, end + kEnd.size() - begin);
  if (!bundle.empty() && bundle.back() != '\n') bundle += '\n';
  bundle.append(kBegin).append(authority);
  if (bundle.back() != '\n') bundle += '\n';
  return bundle.append(kEnd);
}

// The file that a bundle's path leads to, so that a link stays one; nothing when it leads nowhere.
std::string real_path(const std::string& path) {
  std::array<char, PATH_MAX> found{};
  return ::realpath(path.c_str(), found.data()) == nullptr ? "" : found.data();
}

// A store that cannot be read, or has a password, stays as it is: the bundles are what matters to
// most.
void trust_in_java(std::string_view authority, const std::string& root) {
  const Bytes certificate = first_certificate(authority);
  std::vector<std::string> done;
  for (const std::string& path : java_stores(root)) {
    const std::string file = real_path(path);
    if (file.empty() || std::ranges::find(done, file) != done.end()) continue;
    done.push_back(file);
    if (const auto store = with_java_authority(sys::read_file(file, kMaxBundle), certificate))
      sys::write_file_atomic(file, *store, kMode);
  }
}

// What an image's own environment names may be anything, and anywhere.
bool is_bundle(const std::string& file) {
  struct stat found{};
  return ::stat(file.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
         static_cast<size_t>(found.st_size) <= kMaxBundle &&
         sys::read_text_file(file, kMaxBundle).find("-----BEGIN CERTIFICATE-----") !=
             std::string::npos;
}

}

Environment trust_authority(std::string_view authority, const std::string& root,
                            const std::vector<std::string>& files) {
  const std::string alone = root + std::string(kAlone);
  sys::make_directories(alone.substr(0, alone.rfind('/')), 0755);
  sys::write_file_atomic(alone, as_bytes(authority), kMode);
  std::string first;
  std::vector<std::string> written;
  const auto add = [&](const std::string& file) {
    if (std::ranges::find(written, file) != written.end()) return;
    const std::string bundle = sys::read_text_file(file, kMaxBundle);
    sys::write_file_atomic(file, as_bytes(with_authority(bundle, authority)), kMode);
    written.push_back(file);
  };
  for (const std::string_view name : kBundles) {
    const std::string path = root + std::string(name);
    const std::string file = real_path(path);
    if (file.empty()) continue;
    if (first.empty()) first = path;
    add(file);
  }
  for (const std::string& name : files) {
    const std::string file = name.starts_with('/') ? real_path(root + name) : "";
    if (!file.empty() && is_bundle(file)) add(file);
  }
  if (first.empty()) {
    first = root + std::string(kBundles.front());
    sys::write_file_atomic(first, as_bytes(with_authority("", authority)), kMode);
  }
  trust_in_java(authority, root);
  Environment env;
  for (const auto name : proto::kBundleVariables) env.emplace_back(name, first);
  for (const auto name : proto::kAddingVariables) env.emplace_back(name, alone);
  return env;
}

}
