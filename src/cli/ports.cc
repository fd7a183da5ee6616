#include "ports.h"

#include "mvm/base/text.h"
#include "mvm/cli/actions.h"

#include "json_text.h"

namespace mvm::cli {

std::string ports_text(const std::vector<proto::PublishedPort>& ports) {
  std::string text;
  for (const proto::PublishedPort& port : ports)
    text += (text.empty() ? "" : ", ") + port.place() + "->" + std::to_string(port.guest);
  return text;
}

void warn_of_open_ports(Context& context, const std::string& sandbox,
                        const std::vector<proto::PublishedPort>& ports) {
  for (const proto::PublishedPort& port : ports)
    if (!port.is_loopback())
      context.console.err("mvm: " + port.place() +
                          " is open to other machines, and leads to port " +
                          std::to_string(port.guest) + " of " + sandbox + "\n");
}

int port(Context& context, const PortOptions& options) {
  api::Service& service = context.service();
  for (const proto::PublishedPort& place : options.remove) {
    service.unpublish(options.sandbox, place);
    if (!options.quiet && !options.json)
      context.console.out(place.place() + " is no longer " + options.sandbox + "'s\n");
  }
  std::vector<proto::PublishedPort> published;
  for (const proto::PublishedPort& wanted : options.publish) {
    published.push_back(service.publish(options.sandbox, wanted));
    warn_of_open_ports(context, options.sandbox, {published.back()});
    const std::string guest = std::to_string(published.back().guest);
    if (!options.quiet && !options.json)
      context.console.out(published.back().host == 0
                              ? "a free port will lead to port " + guest + " of " +
                                    options.sandbox + " when it starts\n"
                              : published.back().place() + " leads to port " + guest + " of " +
                                    options.sandbox + "\n");
  }
  if (options.publish.empty() && options.remove.empty()) {
    published = service.sandbox(options.sandbox).ports;
    if (!options.json) {
      std::vector<std::vector<std::string>> rows = {{"HOST", "SANDBOX"}};
      for (const proto::PublishedPort& port : published)
        rows.push_back({port.place(), std::to_string(port.guest)});
      context.console.out(table(rows));
    }
  }
  if (options.json) context.console.out(api::encode(published) + '\n');
  return kFine;
}

}
