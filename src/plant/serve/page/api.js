// The service: JSON in, JSON out; what it refuses is an error with its own words and the status of the answer.

export async function ask(path, body, headers = {}, method = body ? "POST" : "GET") {
  const sent = { "Content-Type": "application/json", ...headers };
  const answer = await fetch(`v1/${path}`, { method, headers: sent, body: body && JSON.stringify(body) });
  if (answer.ok) return method === "HEAD" ? answer : answer.json();
  const problem = await answer.json().catch(() => ({}));
  throw Object.assign(new Error(problem.detail || "the service refused this"), { status: answer.status, problem });
}
