#include "mvm/registry/credentials.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/json/json.h"
#include "mvm/oci/reference.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/process.h"

namespace mvm::registry {
namespace {

using Json = json::Value;

constexpr size_t kMaxFile = size_t{1} << 20;
constexpr size_t kMaxAnswer = 64 * 1024;
constexpr int kHelperLimit = 30'000;  // milliseconds; it may ask a person

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Docker's own registry goes by the name it had first.
std::vector<std::string> keys_of(std::string_view host) {
  std::vector<std::string> keys{std::string(host), "https://" + std::string(host),
                                "https://" + std::string(host) + "/"};
  if (host == oci::kDefaultHost)
    keys.insert(keys.begin(), {"https://index.docker.io/v1/", "index.docker.io"});
  return keys;
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : split(path != nullptr ? path : "/usr/bin:/bin", ':')) {
    const std::string candidate = std::string(folder) + "/" + name;
    if (folder.starts_with('/') && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  throw Error(Kind::Unavailable, "the credential helper " + name + " is not installed");
}

// What it prints, at most kMaxAnswer bytes.
std::string answer_of(sys::Child& helper, int output, const std::string& name) {
  std::string answer;
  Bytes buffer(4096);
  while (true) {
    pollfd ready{output, POLLIN, 0};
    const int events = ::poll(&ready, 1, kHelperLimit);
    if (events < 0 && errno == EINTR) continue;
    const auto got = events > 0 ? sys::read_some(output, buffer) : std::nullopt;
    if (!got || answer.size() + *got > kMaxAnswer) {
      helper.signal(SIGKILL);
      helper.wait();
      throw Error(Kind::Unavailable, "the credential helper " + name + " does not answer");
    }
    if (*got == 0) return answer;
    answer += as_text(ByteView(buffer).first(*got));
  }
}

// The protocol of docker-credential-helpers: "get", the server's name on standard input, JSON back.
std::optional<Credentials> ask_helper(const std::string& helper, std::string_view host) {
  if (const auto complaint = name_complaint(helper))
    throw Error(Kind::Invalid, "credential helper \"" + printable(helper) + "\": " + *complaint);
  const std::string name = "docker-credential-" + helper;
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  sys::check(::pipe2(in.data(), O_CLOEXEC), "making a pipe");
  sys::Fd question_reader(in[0]);
  sys::Fd question(in[1]);
  sys::check(::pipe2(out.data(), O_CLOEXEC), "making a pipe");
  const sys::Fd answer(out[0]);
  sys::Fd answer_writer(out[1]);
  sys::SpawnOptions options;
  options.argv = {find_program(name), "get"};
  for (char** entry = ::environ; *entry != nullptr; ++entry) options.env.emplace_back(*entry);
  options.fds = {{question_reader.get(), 0}, {answer_writer.get(), 1}, {2, 2}};
  sys::Child child = sys::spawn(options);
  question_reader.reset();
  answer_writer.reset();
  // Short enough for the pipe: it never blocks.
  sys::write_all(question.get(), as_bytes(keys_of(host).front() + "\n"));
  question.reset();
  const std::string text = answer_of(child, answer.get(), name);
  const auto status = child.wait();
  if (status->code != 0 || status->signal != 0) {
    if (text.find("not found") != text.npos) return std::nullopt;
    throw Error(Kind::Unavailable,
                "the credential helper " + name + " failed: " + printable(text, 100));
  }
  const auto json = json::parse_object(text);
  if (!json)
    throw Error(Kind::Invalid, "the credential helper " + name + " printed no JSON object");
  return Credentials{text_at(*json, "Username"), text_at(*json, "Secret")};
}

std::optional<Credentials> in_file(const Json& json, std::string_view host) {
  for (const std::string& key : keys_of(host)) {
    if (json.contains("credHelpers") && json["credHelpers"].is_object())
      if (const std::string helper = text_at(json["credHelpers"], key.c_str()); !helper.empty())
        return ask_helper(helper, host);
    if (!json.contains("auths") || !json["auths"].is_object()) continue;
    const auto entry = json["auths"].find(key);
    if (entry == json["auths"].end() || !entry->is_object()) continue;
    const std::string auth = text_at(*entry, "auth");
    if (auth.empty()) continue;
    const auto text = base64_decode(auth);
    const size_t colon = text ? text->find(':') : std::string::npos;
    if (colon == std::string::npos)
      throw Error(Kind::Invalid,
                  "auths." + printable(key) + ".auth is not base64 of USER:PASSWORD");
    return Credentials{text->substr(0, colon), text->substr(colon + 1)};
  }
  const std::string store = text_at(json, "credsStore");
  return store.empty() ? std::nullopt : ask_helper(store, host);
}

}

std::string base64(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    bits = bits << 8U | static_cast<unsigned char>(c);
    for (have += 8; have >= 6; have -= 6)
      out += kAlphabet[bits >> static_cast<unsigned>(have - 6) & 63U];
  }
  if (have > 0) out += kAlphabet[bits << static_cast<unsigned>(6 - have) & 63U];
  while (out.size() % 4 != 0) out += '=';
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    const size_t value = kAlphabet.find(c);
    if (value == kAlphabet.npos) return std::nullopt;
    bits = bits << 6U | static_cast<uint32_t>(value);
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out += static_cast<char>(bits >> static_cast<unsigned>(have) & 255U);
  }
  return out;
}

std::vector<std::string> auth_files(const Environment& environment) {
  if (const auto only = environment("MVM_AUTH_FILE")) return {*only};
  std::vector<std::string> files;
  const auto add = [&](const char* variable, const char* rest) {
    if (const auto value = environment(variable)) files.push_back(*value + rest);
  };
  add("REGISTRY_AUTH_FILE", "");
  add("XDG_RUNTIME_DIR", "/containers/auth.json");
  add("DOCKER_CONFIG", "/config.json");
  add("HOME", "/.docker/config.json");
  return files;
}

std::optional<Credentials> find_credentials(const std::vector<std::string>& files,
                                            std::string_view host) {
  for (const std::string& path : files) {
    if (!sys::exists(path)) continue;
    const auto json = json::parse_object(sys::read_text_file(path, kMaxFile));
    if (!json) throw Error(Kind::Invalid, path + " is no JSON object");
    if (auto found = while_doing(path, [&] { return in_file(*json, host); })) return found;
  }
  return std::nullopt;
}

}
