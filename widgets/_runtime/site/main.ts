/** Entry of every page. The page is complete without it: this adds what needs memory or a running model. */

import { hasWidgets, readConfig } from "./config";
import { setUpEmbed } from "./embed";
import { setUpHome, setUpNeeds } from "./home";
import { Progress } from "./progress";
import { setUpQuizzes } from "./quiz";
import { setUpReading } from "./reading";
import { setUpResources } from "./resources";
import { setUpScrollers } from "./scrollers";
import { texts } from "./texts";
import { setUpTheme } from "./theme";

const config = readConfig();
const progress = new Progress(config.course);

setUpTheme(config.course);
setUpReading(config.course, config.page);
setUpScrollers();
setUpEmbed(config.page.replace(/^widget\//, ""));
if (hasWidgets(config)) {
  import("./widgets").then(({ setUpWidgets }) => setUpWidgets(config, progress.open())).catch(tellWithoutWidgets);
}
if (config.kind === "lesson") {
  void setUpQuizzes(progress, config.page);
  void setUpResources(progress, config.page);
  void setUpNeeds(progress);
  void progress.keepVisit(config.page);
} else {
  void setUpHome(progress, config.course);
}

/** The recorded runs stay readable. */
function tellWithoutWidgets(error: unknown): void {
  console.error(error);
  for (const body of document.querySelectorAll("section[data-widget] .widget-body")) {
    const alert = document.createElement("div");
    alert.className = "widget-alert";
    alert.setAttribute("role", "alert");
    body.querySelector(".widget-head")?.after(alert);
    alert.textContent = texts.widgets.missing;
  }
}
