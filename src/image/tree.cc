#include "mvm/image/tree.h"

namespace mvm::image {

// What a map entry costs beside its name, roughly: a red-black node and the allocator's header.
static constexpr uint64_t kEntryOverhead = 80;

bool keeps_xattr(std::string_view name) {
  return name.starts_with("user.") || name == "security.capability" ||
         name == "system.posix_acl_access" || name == "system.posix_acl_default";
}

Tree::Tree() {
  Attributes attributes;
  attributes.permissions = 0755;
  add_node(Type::Directory, std::move(attributes));
}

std::optional<NodeId> Tree::child(NodeId directory, std::string_view name) const {
  const auto& children = nodes_[directory].children;
  const auto found = children.find(name);
  if (found == children.end()) return std::nullopt;
  return found->second.id;
}

NodeId Tree::add_node(Type type, Attributes attributes) {
  metadata_bytes_ += sizeof(Node);
  for (const auto& [name, value] : attributes.xattrs)
    metadata_bytes_ += kEntryOverhead + name.size() + value.size();
  Node& node = nodes_.emplace_back();
  node.type = type;
  node.attributes = std::move(attributes);
  return static_cast<NodeId>(nodes_.size() - 1);
}

void Tree::link(NodeId directory, std::string_view name, NodeId id) {
  Node& parent = nodes_[directory];
  const auto found = parent.children.find(name);
  if (found != parent.children.end()) {
    --nodes_[found->second.id].links;
    found->second = {id, layer_};
  } else {
    parent.children.emplace(name, Entry{id, layer_});
    metadata_bytes_ += kEntryOverhead + name.size();
  }
  ++nodes_[id].links;
  if (nodes_[id].type == Type::Directory) nodes_[id].parent = directory;
}

void Tree::remove(NodeId directory, std::string_view name) {
  auto& children = nodes_[directory].children;
  const auto found = children.find(name);
  if (found == children.end()) return;
  std::vector<NodeId> doomed{found->second.id};
  children.erase(found);
  while (!doomed.empty()) {
    Node& node = nodes_[doomed.back()];
    doomed.pop_back();
    --node.links;
    for (const auto& [below, entry] : node.children) doomed.push_back(entry.id);
    node.children.clear();
  }
}

void Tree::touch(NodeId directory, std::string_view name) {
  const auto found = nodes_[directory].children.find(name);
  if (found != nodes_[directory].children.end()) found->second.layer = layer_;
}

void Tree::hide_lower(NodeId directory, std::string_view name) {
  const auto found = nodes_[directory].children.find(name);
  if (found != nodes_[directory].children.end() && !hide_lower_below(found->second))
    remove(directory, name);
}

void Tree::hide_lower_in(NodeId directory) {
  auto& children = nodes_[directory].children;
  for (auto next = children.begin(); next != children.end();) {
    const auto entry = next++;
    if (!hide_lower_below(entry->second)) remove(directory, std::string(entry->first));
  }
}

// Whether something of the current layer is left, so that the entry must stay. The depth is bounded
// by that of paths.
bool Tree::hide_lower_below(Entry entry) {
  if (nodes_[entry.id].type != Type::Directory) return entry.layer == layer_;
  hide_lower_in(entry.id);
  return entry.layer == layer_ || !nodes_[entry.id].children.empty();
}

}
