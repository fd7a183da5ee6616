// The commands `secret ...`. Values come in, and none ever goes out.
#include <ctime>

#include <sys/prctl.h>
#include <unistd.h>

#include "mvm/base/scope_exit.h"
#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/json/json.h"
#include "mvm/policy/secret.h"
#include "mvm/secret/text.h"
#include "mvm/sys/io.h"

#include "secret_values.h"
#include "terminal.h"

namespace mvm::cli {
namespace {

using Json = json::Ordered;

// A value, and the line end that a file or a program puts behind it.
constexpr size_t kMostInput = proto::kMaxSecretValue + 2;

std::string checked_secret(const Arguments& arguments, const std::string& name) {
  if (const auto complaint = policy::secret_name_complaint(name))
    throw UsageError(&arguments.command(), *complaint);
  return name;
}

std::string given_name(const Arguments& arguments) {
  return checked_secret(arguments, arguments.positional("NAME").value_or(""));
}

std::string given_reference(const Arguments& arguments) {
  const std::string from = arguments.value("from").value_or("");
  if (const auto complaint = policy::secret_reference_complaint(from))
    throw UsageError(&arguments.command(), "--from " + *complaint);
  return from;
}

std::string value_from_input(const std::string& name) {
  if (::isatty(STDIN_FILENO) == 1) {
    auto line = ask_unseen(STDIN_FILENO, "Value of " + name + " (not shown): ", kMostInput);
    if (!line) throw Error(Kind::Invalid, "no value was given");
    return std::move(*line);
  }
  std::string text(kMostInput + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const auto got =
        sys::read_some(STDIN_FILENO, std::as_writable_bytes(std::span(text)).subspan(size));
    if (!got) {
      sys::wait_readable(STDIN_FILENO);
      continue;
    }
    if (*got == 0) break;
    size += *got;
  }
  text.resize(size);
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

std::string date(int64_t unix_seconds) {
  const auto time = static_cast<time_t>(unix_seconds);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  const size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text.data(), length};
}

std::string hosts_of(const std::string& name) {
  const auto* provider = policy::find_secret_provider(name);
  return provider == nullptr ? "-" : std::string(provider->hosts);
}

}

int secret_set(Context& context, const Arguments& arguments) {
  const std::string name = given_name(arguments);
  secret::Store store = secret_store(context);
  const secret::Sources sources{context.variable, context.directory, store};
  secret::Stored entry;
  entry.from = secret::absolute_reference(given_reference(arguments), sources);
  entry.set_at = context.unix_seconds();
  if (entry.from.starts_with("stored:"))
    throw UsageError(&arguments.command(), "--from cannot be another stored secret");
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  const ScopeExit forget([&] { secret::wipe(entry.value); });
  if (entry.from.empty()) {
    entry.value = value_from_input(name);
    if (const auto complaint = policy::secret_value_complaint({}, entry.value))
      throw Error(Kind::Invalid, "secret " + name + ": " + *complaint);
  }
  const bool is_reference = !entry.from.empty();
  context.paths.ensure_data();
  store.set(name, std::move(entry));
  if (!arguments.flag("quiet"))
    context.console.out(name + (is_reference ? " is looked up there from now on\n" : " is set\n"));
  return kFine;
}

int secret_list(Context& context, const Arguments& arguments) {
  const secret::StoredMap entries = secret_store(context).read();
  const bool all = arguments.flag("all");
  if (arguments.flag("json")) {
    Json list = Json::array();
    for (const auto& [name, entry] : entries)
      list.push_back({{"name", name},
                      {"stored", entry.from.empty() ? "value" : "reference"},
                      {"from", entry.from},
                      {"set_at", date(entry.set_at)},
                      {"hosts", hosts_of(name)}});
    if (all)
      for (const auto& provider : policy::secret_providers())
        if (!entries.contains(std::string(provider.name)))
          list.push_back({{"name", provider.name}, {"stored", "no"}, {"hosts", provider.hosts}});
    context.console.out(json::dump(list) + '\n');
    return kFine;
  }
  std::vector<std::vector<std::string>> rows = {{"NAME", "STORED", "SET", "KNOWN HOSTS"}};
  for (const auto& [name, entry] : entries)
    rows.push_back({name, entry.from.empty() ? "value" : printable(entry.from, 60),
                    date(entry.set_at), hosts_of(name)});
  if (all)
    for (const auto& provider : policy::secret_providers())
      if (!entries.contains(std::string(provider.name)))
        rows.push_back({std::string(provider.name), "-", "-", std::string(provider.hosts)});
  context.console.out(table(rows));
  return kFine;
}

int secret_remove(Context& context, const Arguments& arguments) {
  secret::Store store = secret_store(context);
  for (const std::string& name : arguments.positionals("NAME")) {
    if (!store.remove(checked_secret(arguments, name)))
      throw api::ApiError(Kind::NotFound, "nothing is stored as " + name, "mvm secret ls");
    if (!arguments.flag("quiet")) context.console.out(name + " is forgotten\n");
  }
  return kFine;
}

int secret_test(Context& context, const Arguments& arguments) {
  const std::string name = given_name(arguments);
  const secret::Store store = secret_store(context);
  const secret::Sources sources{context.variable, context.directory, store};
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  std::string complaint;
  size_t size = 0;
  try {
    std::string value = secret::look_up(name, given_reference(arguments), sources);
    size = value.size();
    complaint = policy::secret_value_complaint({}, value).value_or("");
    secret::wipe(value);
  } catch (const Error& error) {
    complaint = error.message();
  }
  if (arguments.flag("json")) {
    Json json = {{"name", name}, {"ok", complaint.empty()}};
    if (complaint.empty()) json["bytes"] = size;
    if (!complaint.empty()) json["why"] = complaint;
    context.console.out(json::dump(json) + '\n');
  } else if (complaint.empty()) {
    context.console.out(name + " has a value of " + std::to_string(size) + " bytes\n");
  } else {
    context.console.err("mvm: secret " + name + ": " + complaint + '\n');
  }
  return complaint.empty() ? kFine : kNotWell;
}

}
